import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { openDatabase } from '../../../db/database.ts'
import { migrate } from '../../../db/migrate.ts'
import type { Database } from '../../../db/tables.ts'
import { createOutput } from '../../../embedded/output.ts'
import { ensureDatabase, initPostgres, postgresChild, postgresUrl } from '../../../embedded/postgres.ts'
import { keepUp } from '../../../embedded/processes/child.ts'

const TEMPLATE = 'hearth_template'

/** A database of one test file: cloned from a migrated template, dropped at the end. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly db: Kysely<Database>
}

let server: Promise<{ url: (database: string) => string }> | undefined
let clones = 0

/** Gives a fresh database, migrated unless it is to be empty. One PostgreSQL server serves the whole test process. */
export async function startDatabase({ isEmpty = false } = {}): Promise<TestDatabase> {
  const { url } = await (server ??= startServer())
  const name = `test_${process.pid}_${++clones}`
  await administer(url('postgres'), `create database ${name} template ${isEmpty ? 'template0' : TEMPLATE}`)
  const db = openDatabase(url(name))
  return {
    url: url(name),
    db,
    async [Symbol.asyncDispose]() {
      await db.destroy()
      await administer(url('postgres'), `drop database ${name} with (force)`)
    },
  }
}

async function startServer() {
  const folder = await mkdtemp(join(tmpdir(), 'hearth-pg-'))
  await chmod(folder, 0o755)
  const cluster = { dataDir: join(folder, 'data'), port: await freePort(), password: 'test' }
  await initPostgres(cluster)
  const spec = await postgresChild(cluster, ['fsync=off', 'full_page_writes=off', 'max_connections=300'])
  const child = keepUp(spec, { runDir: folder, output: createOutput(folder, { quiet: true }) })
  serversToStop.push(async () => {
    await child.stop(5000)
    await rm(folder, { recursive: true, force: true })
  })

  const url = (database: string) => postgresUrl(cluster, database)
  await ensureDatabase(cluster)
  await administer(url('postgres'), `create database ${TEMPLATE}`)
  const template = openDatabase(url(TEMPLATE))
  await migrate(template)
  await template.destroy()
  return { url }
}

const serversToStop: (() => Promise<void>)[] = []

/** Stops what tests started; the mocha root hook calls it. */
export async function stopDatabases(): Promise<void> {
  for (const stop of serversToStop.splice(0)) await stop()
}

async function administer(url: string, statement: string): Promise<void> {
  const db = openDatabase(url, { max: 1 })
  try {
    await sql.raw(statement).execute(db)
  } finally {
    await db.destroy()
  }
}

/** A TCP port that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
