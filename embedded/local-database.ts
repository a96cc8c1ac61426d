import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../platform/free-ports.ts'
import { isAlive } from '../platform/processes/process-identity.ts'
import { StartError } from './options.ts'
import { createOutput } from './output.ts'
import { layoutOf } from './paths.ts'
import { ensureDatabase, initPostgres, postgresChild, postgresUrl } from './postgres.ts'
import { superviseChild } from './processes/child.ts'
import { lockDataDir } from './processes/data-lock.ts'
import { readIdentity, reapLeftovers } from './processes/pid-files.ts'
import { loadSecrets, type Secrets } from './secrets.ts'

/** The time that PostgreSQL gets to write its last checkpoint. */
const STOP_TIMEOUT_MS = 60_000

/** A database that other programs may use until this is disposed. */
export interface LocalDatabase extends AsyncDisposable {
  readonly url: string
}

/** Returns whether `npm start` has created a database in this data directory. */
export const hasLocalDatabase = (dataDir: string): boolean =>
  existsSync(join(layoutOf(dataDir).postgres, 'PG_VERSION'))

/** Reads the secrets of a data directory; undefined if there are none yet. */
export function localSecrets(dataDir: string): Secrets | undefined {
  const { secrets } = layoutOf(dataDir)
  return existsSync(secrets) ? loadSecrets(secrets) : undefined
}

/** Returns the folder of the object store of a data directory. */
export const localObjects = (dataDir: string): string => layoutOf(dataDir).objects

/**
 * Opens the database of a data directory. Connects to the server of a running platform. Otherwise starts PostgreSQL until
 * this is disposed, and creates the database if there is none; a platform cannot start on the directory meanwhile.
 */
export async function openLocalDatabase(dataDir: string): Promise<LocalDatabase> {
  const layout = layoutOf(dataDir)
  const owner = readIdentity(join(dataDir, 'supervisor.lock'))
  if (owner && isAlive(owner)) {
    const url = runningUrl(dataDir)
    return { url, [Symbol.asyncDispose]: async () => {} }
  }
  mkdirSync(dataDir, { recursive: true })
  const lock = lockDataDir(dataDir)
  await using stack = new AsyncDisposableStack()
  stack.defer(() => lock.release())
  for (const folder of [layout.run, layout.logs, layout.objects]) mkdirSync(folder, { recursive: true })
  await reapLeftovers(layout.run)
  const { postgres_password: password } = loadSecrets(layout.secrets)
  const cluster = { dataDir: layout.postgres, port: await freePort(), password }
  await initPostgres(cluster)
  const output = createOutput(layout.logs, { quiet: true })
  const server = superviseChild(await postgresChild(cluster), { runDir: layout.run, output })
  stack.defer(() => server.stop(STOP_TIMEOUT_MS))
  const url = await ensureDatabase(cluster)
  const opened = stack.move()
  return { url, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

/** Returns the address of the server that a running platform started. */
function runningUrl(dataDir: string): string {
  const { postgres, secrets } = layoutOf(dataDir)
  let lines: string[]
  try {
    lines = readFileSync(join(postgres, 'postmaster.pid'), 'utf8').split('\n')
  } catch {
    throw new StartError(
      `The platform on ${dataDir} does not use a PostgreSQL of its own, or is still starting. If it uses your server, set DATABASE_URL.`,
    )
  }
  // The fourth line of this file is the port.
  const cluster = {
    dataDir: postgres,
    port: Number(lines[3]),
    password: loadSecrets(secrets).postgres_password,
  }
  return postgresUrl(cluster, 'hearth')
}
