import { randomUUID } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { openDatabase } from '../../../db/database.ts'
import { migrate } from '../../../db/migrate.ts'
import type { Database } from '../../../db/tables.ts'
import { createOutput } from '../../../embedded/output.ts'
import { ensureDatabase, initPostgres, postgresChild, postgresUrl } from '../../../embedded/postgres.ts'
import { superviseChild } from '../../../embedded/processes/child.ts'
import { freePort } from '../../../platform/free-ports.ts'

const TEMPLATE = 'hearth_template'

/** The database of one test file: cloned from a migrated template, dropped at the end. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly db: Kysely<Database>
}

/** A PostgreSQL server with the migrated template. */
export interface DatabaseServer {
  /** Its URL without the database name. */
  readonly address: string
  stop(): Promise<void>
}

let server: Promise<DatabaseServer> | undefined

/** Creates a database, migrated unless `isEmpty` is set. */
export async function startDatabase({ isEmpty = false } = {}): Promise<TestDatabase> {
  const { address } = await (server ??= ownOrShared())
  const name = `test_${randomUUID().replaceAll('-', '')}`
  await administer(address, `create database ${name} template ${isEmpty ? 'template0' : TEMPLATE}`)
  const url = `${address}/${name}`
  const db = openDatabase(url)
  return {
    url,
    db,
    async [Symbol.asyncDispose]() {
      await db.destroy()
      await administer(address, `drop database ${name} with (force)`)
    },
  }
}

/** Returns the server that all processes of `npm test` share; else starts one for this process. */
async function ownOrShared(): Promise<DatabaseServer> {
  const { HEARTH_TEST_POSTGRES: address } = process.env
  return address ? { address, stop: async () => {} } : startDatabaseServer()
}

export async function startDatabaseServer(): Promise<DatabaseServer> {
  const folder = await mkdtemp(join(tmpdir(), 'hearth-pg-'))
  await chmod(folder, 0o755)
  const cluster = { dataDir: join(folder, 'data'), port: await freePort(), password: 'test' }
  await initPostgres(cluster)
  const spec = await postgresChild(cluster, ['fsync=off', 'full_page_writes=off', 'max_connections=500'])
  const child = superviseChild(spec, { runDir: folder, output: createOutput(folder, { quiet: true }) })
  const stop = async () => {
    await child.stop(5000)
    await rm(folder, { recursive: true, force: true })
  }

  const address = postgresUrl(cluster, '').replace(/\/$/, '')
  try {
    await ensureDatabase(cluster)
    await administer(address, `create database ${TEMPLATE}`)
    const template = openDatabase(`${address}/${TEMPLATE}`)
    await migrate(template)
    await template.destroy()
  } catch (err) {
    await stop()
    throw err
  }
  return { address, stop }
}

/** Stops the servers that tests started; the mocha root hook calls it. */
export async function stopDatabases(): Promise<void> {
  const started = await server?.catch(() => undefined)
  await started?.stop()
}

async function administer(address: string, statement: string): Promise<void> {
  const db = openDatabase(`${address}/postgres`, { max: 1 })
  try {
    await sql.raw(statement).execute(db)
  } finally {
    await db.destroy()
  }
}
