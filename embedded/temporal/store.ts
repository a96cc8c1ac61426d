import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { freePorts } from '../../platform/free-ports.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { StartError } from '../options.ts'
import type { Child, ChildSpec } from '../processes/child.ts'
import { compareVersions, serverOf } from './cli.ts'
import { localPlace, schemaChild, temporalReady } from './server.ts'

/** The facts that Hearth keeps about a store, written next to the store's file. */
export interface StoreState {
  /** The `temporal --version` output of the server that last wrote the store. */
  version: string
  /** The number of partitions per task queue that may hold tasks. */
  partitions: number
}

/** The server's default, which Hearth used until 0.12. */
const OLD_PARTITIONS = 4
const SCHEMA_TIMEOUT_MS = 60_000
const VERSION_TIMEOUT_MS = 20_000
const STOP_TIMEOUT_MS = 10_000
/** How often a server that creates its schema is checked for an early exit. */
const EXIT_CHECK_INTERVAL_MS = 100

export interface UpgradeOptions {
  say: (line: string) => void
  /** Starts a child that the caller always stops, and that the next start can find after a crash. */
  start: (spec: ChildSpec) => Child
  /** Ends the work with the signal's reason. */
  signal?: AbortSignal | undefined
}

/**
 * Makes the SQLite file of an older server usable by this one. The development server creates its schema only in a
 * missing file and never migrates an existing one: server 1.32 on a 1.29 file fails to create schedules. So we copy a
 * file from another version, row by row, into this server's schema. Safe to repeat: one rename replaces the file after
 * the copy is complete. Throws a `StartError` when the copy fails or a newer server wrote the file, or the signal's
 * reason on abort; the file is then unchanged.
 */
export async function upgradeStore(cli: string, file: string, options: UpgradeOptions): Promise<StoreState> {
  const marker = `${file}.server`
  const { say, signal } = options
  const { stdout } = await runProgram(cli, ['--version'], {
    timeout: VERSION_TIMEOUT_MS,
    ...(signal && { signal }),
  })
  const version = stdout.trim()
  let state: StoreState = { version, partitions: 1 }
  if (existsSync(file)) {
    const last = readState(marker)
    if (last?.version === version) return last
    if (last) refuseOlder(last.version, version, file)
    say(`Temporal: preparing the data of ${last?.version ?? 'an older version'} for ${version}`)
    await rebuild(cli, file, options)
    state = { version, partitions: last?.partitions ?? OLD_PARTITIONS }
  }
  writeFileSync(marker, `${JSON.stringify(state)}\n`)
  return state
}

/** A newer server may keep state in tables and columns that an older schema lacks, and a copy would drop it. */
function refuseOlder(last: string, now: string, file: string): void {
  const [wrote, runs] = [serverOf(last), serverOf(now)]
  if (!wrote || !runs || compareVersions(runs, wrote) >= 0) return
  throw new StartError(
    `${file} was written by a newer Temporal server (${last}) than the current one (${now}). The file is unchanged. ` +
      'Put the newer `temporal` on PATH, or start the version of Hearth that last ran here. ' +
      'To start with this server, restore a backup of the data directory from before the upgrade, or move that file ' +
      `and ${basename(file)}.server away; runs, calls and cohorts in progress are then lost.`,
  )
}

function readState(marker: string): StoreState | undefined {
  try {
    const { version, partitions } = JSON.parse(readFileSync(marker, 'utf8')) as Partial<StoreState>
    if (typeof version !== 'string' || typeof partitions !== 'number') return undefined
    return { version, partitions }
  } catch {
    return undefined
  }
}

async function rebuild(cli: string, file: string, options: UpgradeOptions): Promise<void> {
  const next = `${file}.next`
  removeDatabase(next)
  try {
    await createEmpty(cli, next, options)
    copyRows(file, next)
    renameSync(next, file)
  } catch (cause) {
    options.signal?.throwIfAborted()
    throw new StartError(
      `Temporal's data in ${file} could not be prepared for this server (${(cause as Error).message}). The file is unchanged.`,
      { cause },
    )
  } finally {
    removeDatabase(next)
  }
}

function removeDatabase(file: string): void {
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(`${file}${suffix}`, { force: true })
}

/**
 * Runs the server on a new file until it responds; by then it has created its schema. We don't open the file while the
 * server is running, because a reader's lock would make the server exit.
 */
async function createEmpty(
  cli: string,
  file: string,
  { start, signal }: Omit<UpgradeOptions, 'say'>,
): Promise<void> {
  const [port = 0] = await freePorts(1)
  signal?.throwIfAborted()
  const server = start(schemaChild(cli, { file, port }))
  const exited = new AbortController()
  const timer = setInterval(() => {
    if (server.failures > 0) exited.abort(new Error('the server exited early; see temporal-schema.log'))
  }, EXIT_CHECK_INTERVAL_MS)
  try {
    await temporalReady(localPlace(`127.0.0.1:${port}`, 'default'), {
      timeoutMs: SCHEMA_TIMEOUT_MS,
      signal: AbortSignal.any([exited.signal, ...(signal ? [signal] : [])]),
    })
  } finally {
    clearInterval(timer)
    await server.stop(STOP_TIMEOUT_MS)
  }
}

/** Copies the rows of every table that both files have. The schema's triggers fill the full-text tables. */
function copyRows(from: string, to: string): void {
  const db = new DatabaseSync(to)
  try {
    db.prepare('attach ? as old').run(from)
    db.exec('begin')
    const oldTables = new Set(tablesOf(db, 'old'))
    for (const table of tablesOf(db, 'main')) {
      db.exec(`delete from main."${table}"`)
      if (!oldTables.has(table)) continue
      const columns = columnsOf(db, 'old', table)
      const shared = columnsOf(db, 'main', table)
        .filter((column) => columns.includes(column))
        .map((column) => `"${column}"`)
        .join(', ')
      db.exec(`insert into main."${table}" (${shared}) select ${shared} from old."${table}"`)
    }
    db.exec('commit')
    db.exec('detach old')
  } finally {
    db.close()
  }
}

type Schema = 'main' | 'old'

/** Returns ordinary tables only: no virtual tables, and none of the shadow tables that store their content. */
const tablesOf = (db: DatabaseSync, schema: Schema): string[] =>
  db
    .prepare(
      `select name from pragma_table_list where schema = ? and type = 'table' and name not like 'sqlite_%'`,
    )
    .all(schema)
    .map(({ name }) => String(name))

/** Returns the columns of a table except generated ones. */
const columnsOf = (db: DatabaseSync, schema: Schema, table: string): string[] =>
  db
    .prepare('select name from pragma_table_xinfo(?, ?) where hidden = 0')
    .all(table, schema)
    .map(({ name }) => String(name))
