import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import type { Client } from 'pg'
import { type CopyStreamQuery, from as copyFrom } from 'pg-copy-streams'
import { type Partition, partitionsOf, type SequencePosition, tablesOf, type TableShape } from './catalog.ts'
import { BackupError, connectForCopy, quoteName, RESTORE_APPLICATION } from './connection.ts'

/** Tables with rows that migrations insert. */
const SEEDED: ReadonlySet<string> = new Set(['cache_version', 'kill_switch', 'schema_compatibility'])
const MAX_NAMED = 3

interface ForeignKey {
  table: string
  name: string
  definition: string
}

/** The table that rows are being copied into. */
interface CurrentTable {
  stream: CopyStreamQuery
  /** The server's error. The stream only emits it, so a later wait for the stream would hang. */
  error?: Error
}

/** Throws unless the database has no rows except those that migrations insert. */
export async function assertEmptyDatabase(url: string): Promise<void> {
  const client = await connectForCopy(url, RESTORE_APPLICATION)
  try {
    await assertEmpty(client, await tablesOf(client))
  } finally {
    await client.end()
  }
}

async function assertEmpty(client: Client, tables: readonly TableShape[]): Promise<void> {
  const checked = tables.filter(({ name }) => !SEEDED.has(name)).map(({ name }) => name)
  if (checked.length === 0) return
  const { rows } = await client.query<{ name: string }>(
    checked
      .map((name, i) => `select $${i + 1}::text as name where exists (select from ${quoteName(name)})`)
      .join(' union all '),
    checked,
  )
  if (rows.length === 0) return
  const shown = rows.slice(0, MAX_NAMED).map(({ name }) => name)
  const more = rows.length > MAX_NAMED ? ` and ${rows.length - MAX_NAMED} other tables` : ''
  throw new BackupError(
    `This database is not empty: ${shown.join(', ')}${more} have rows. Restore into a new database, and start no process on it before.`,
  )
}

/**
 * Loads tables in one transaction, so that a restore that ends early leaves no rows. Foreign keys are removed and added
 * again after the last row, which needs only the owner of the tables and checks every reference. Triggers do not run.
 */
export class DatabaseLoad implements AsyncDisposable {
  readonly #client: Client
  readonly #tables: ReadonlyMap<string, TableShape>
  readonly #foreignKeys: readonly ForeignKey[]
  #current: CurrentTable | undefined

  private constructor(client: Client, tables: readonly TableShape[], foreignKeys: readonly ForeignKey[]) {
    this.#client = client
    this.#tables = new Map(tables.map((table) => [table.name, table]))
    this.#foreignKeys = foreignKeys
  }

  /** Locks the database and prepares it. Throws if it is not empty. */
  static async begin(url: string, partitions: readonly Partition[]): Promise<DatabaseLoad> {
    const client = await connectForCopy(url, RESTORE_APPLICATION)
    try {
      const tables = await tablesOf(client)
      const names = tables.map(({ name }) => quoteName(name)).join(', ')
      await client.query(`begin; lock table ${names} in access exclusive mode`)
      await assertEmpty(client, tables)
      const foreignKeys = await foreignKeysOf(client)
      for (const { table, name } of foreignKeys)
        await client.query(`alter table ${table} drop constraint ${quoteName(name)}`)
      for (const { name } of tables) await client.query(`alter table ${quoteName(name)} disable trigger user`)
      // COPY can freeze rows only in tables that were truncated in the same transaction.
      await client.query(`truncate ${names}`)
      await addPartitions(client, partitions)
      return new DatabaseLoad(client, tables, foreignKeys)
    } catch (err) {
      await client.end()
      throw err
    }
  }

  /** Returns whether the database has this table with these columns. */
  has({ name, columns }: TableShape): boolean {
    const table = this.#tables.get(name)
    return table !== undefined && columns.every((column) => table.columns.includes(column))
  }

  /** Begins to copy rows into a table. */
  start({ name, columns }: TableShape): void {
    const isPartitioned = this.#tables.get(name)?.isPartitioned === true
    const stream = this.#client.query(
      copyFrom(
        `copy ${quoteName(name)} (${columns.map(quoteName).join(', ')}) from stdin${isPartitioned ? '' : ' (freeze)'}`,
      ),
    )
    const current: CurrentTable = { stream }
    stream.on('error', (err) => {
      current.error = err
    })
    this.#current = current
  }

  /** Adds text in COPY's format to the table that was started. */
  async write(text: Buffer): Promise<void> {
    const { stream } = this.#open()
    if (!stream.write(text)) await once(stream, 'drain')
  }

  /** Ends the table that was started; returns the number of its rows. */
  async end(): Promise<number> {
    const { stream } = this.#open()
    this.#current = undefined
    stream.end()
    await finished(stream)
    return stream.rowCount
  }

  /** Restores the sequences, checks all references and commits. */
  async commit(sequences: readonly SequencePosition[]): Promise<void> {
    for (const { name, value } of sequences)
      await this.#client.query('select setval($1::regclass, $2::bigint)', [quoteName(name), value])
    for (const { table, name, definition } of this.#foreignKeys)
      await this.#client.query(`alter table ${table} add constraint ${quoteName(name)} ${definition}`)
    for (const name of this.#tables.keys())
      await this.#client.query(`alter table ${quoteName(name)} enable trigger user`)
    await this.#client.query('commit')
    await this.#client.query('analyze')
  }

  /** Closes the connection, which rolls back what was not committed. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#current?.stream.destroy()
    await this.#client.end()
  }

  #open(): CurrentTable {
    if (!this.#current) throw new Error('no table was started')
    if (this.#current.error) throw this.#current.error
    return this.#current
  }
}

async function foreignKeysOf(client: Client): Promise<ForeignKey[]> {
  const { rows } = await client.query<ForeignKey>(
    `select conrelid::regclass::text as table, conname as name, pg_get_constraintdef(oid) as definition
     from pg_constraint
     where contype = 'f' and conparentid = 0 and connamespace = current_schema()::regnamespace
     order by 1, 2`,
  )
  return rows
}

/** Creates the partitions that migrations do not create, such as those of past months. */
async function addPartitions(client: Client, wanted: readonly Partition[]): Promise<void> {
  const names = new Set((await partitionsOf(client)).map(({ name }) => name))
  for (const { name, parent, bounds } of wanted) {
    if (names.has(name)) continue
    await client.query(`create table ${quoteName(name)} partition of ${quoteName(parent)} ${bounds}`)
  }
}
