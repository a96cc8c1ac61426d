import type { Client } from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import {
  type KeyUse,
  keysInUse,
  migrationsOf,
  type Partition,
  partitionsOf,
  type SequencePosition,
  sequencesOf,
  tablesOf,
  type TableShape,
} from './catalog.ts'
import { BACKUP_APPLICATION, connectForCopy, quoteName } from './connection.ts'

/** A migration in progress holds its locks for seconds; a longer wait means that something hangs. */
const LOCK_TIMEOUT_S = 120

/** All rows of the database as of one moment. */
export interface DatabaseSnapshot extends AsyncDisposable {
  readonly migrations: readonly string[]
  readonly tables: readonly TableShape[]
  readonly partitions: readonly Partition[]
  readonly keys: readonly KeyUse[]
  /** Passes the rows of a table in COPY's text format to `write`; returns their number. */
  copy(table: TableShape, write: (text: Buffer) => Promise<void>): Promise<number>
  sequences(): Promise<SequencePosition[]>
}

/**
 * Opens a snapshot. Its transaction only reads, so it never blocks a writer. While it is open, VACUUM keeps the rows that
 * were deleted since, and a migration waits for it.
 */
export async function openSnapshot(url: string): Promise<DatabaseSnapshot> {
  const client = await connectForCopy(url, BACKUP_APPLICATION)
  try {
    await lockSchema(client)
    const tables = await tablesOf(client)
    return {
      migrations: await migrationsOf(client),
      tables,
      partitions: await partitionsOf(client),
      keys: await keysInUse(client, tables),
      copy: (table, write) => copyTable(client, table, write),
      sequences: () => sequencesOf(client),
      [Symbol.asyncDispose]: () => client.end(),
    }
  } catch (err) {
    await client.end()
    throw err
  }
}

/**
 * Begins the transaction and locks all tables against migrations. LOCK takes no snapshot, so the snapshot begins with the
 * next statement, when no migration is in progress.
 */
async function lockSchema(client: Client): Promise<void> {
  const tables = await tablesOf(client)
  await client.query('begin isolation level repeatable read, read only')
  if (tables.length === 0) return
  await client.query(`set local lock_timeout = '${LOCK_TIMEOUT_S}s'`)
  await client.query(
    `lock table ${tables.map(({ name }) => quoteName(name)).join(', ')} in access share mode`,
  )
}

async function copyTable(
  client: Client,
  { name, columns, isPartitioned }: TableShape,
  write: (text: Buffer) => Promise<void>,
): Promise<number> {
  const list = columns.map(quoteName).join(', ')
  // COPY reads a partitioned table only through a query.
  const source = isPartitioned ? `(select ${list} from ${quoteName(name)})` : `${quoteName(name)} (${list})`
  const stream = client.query(copyTo(`copy ${source} to stdout`))
  for await (const text of stream) await write(text as Buffer)
  return stream.rowCount
}
