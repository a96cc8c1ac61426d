import type { ClientBase } from 'pg'
import { SEALED_COLUMNS } from '../repositories/platform/sealed.ts'
import { BackupError, quoteName } from './connection.ts'

/** A table without its generated columns, which the database computes again. */
export interface TableShape {
  name: string
  columns: string[]
  isPartitioned: boolean
}

/** One partition of a table; the rows are copied through its parent. */
export interface Partition {
  name: string
  parent: string
  /** Its bounds as SQL: `FOR VALUES FROM ... TO ...`, or `DEFAULT`. */
  bounds: string
}

/** An encryption key that stored secrets need, and the number of secrets by column. */
export interface KeyUse {
  id: string
  uses: Record<string, number>
}

/** The position of a sequence; sequences that were never used are omitted. */
export interface SequencePosition {
  name: string
  value: string
}

/** Kysely's own tables, which the target's migrations fill. */
const OF_MIGRATIONS = ['kysely_migration', 'kysely_migration_lock']

/** Lists every table by name, including tables that newer versions of Hearth have added. */
export async function tablesOf(client: ClientBase): Promise<TableShape[]> {
  const { rows } = await client.query<TableShape>(
    `select c.relname as name, c.relkind = 'p' as "isPartitioned",
       array(
         select a.attname::text from pg_attribute a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
         order by a.attnum
       ) as columns
     from pg_class c
     where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
       and not c.relispartition and c.relname <> all($1)
     order by c.relname`,
    [OF_MIGRATIONS],
  )
  return rows
}

/** Lists the partitions of partitioned tables. */
export async function partitionsOf(client: ClientBase): Promise<Partition[]> {
  const { rows } = await client.query<Partition>(
    `select c.relname as name, p.relname as parent, pg_get_expr(c.relpartbound, c.oid) as bounds
     from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
     where p.relnamespace = current_schema()::regnamespace and p.relkind = 'p' and c.relkind = 'r'
     order by c.relname`,
  )
  return rows
}

/** Reads the names of the applied migrations, oldest first. Throws for a database that Hearth never migrated. */
export async function migrationsOf(client: ClientBase): Promise<string[]> {
  const { rows: found } = await client.query<{ found: string | null }>(
    `select to_regclass('kysely_migration') as found`,
  )
  if (!found[0]?.found)
    throw new BackupError('This database has no tables of Hearth: check the address of the database.')
  const { rows } = await client.query<{ name: string }>('select name from kysely_migration order by name')
  return rows.map(({ name }) => name)
}

/** Reads the positions of all sequences. They are not part of a snapshot: read them after the rows were copied. */
export async function sequencesOf(client: ClientBase): Promise<SequencePosition[]> {
  const { rows } = await client.query<SequencePosition>(
    `select sequencename as name, last_value::text as value from pg_sequences
     where schemaname = current_schema() and last_value is not null order by sequencename`,
  )
  return rows
}

/** Returns the ids of the keys that encrypted the stored secrets. */
export async function keysInUse(client: ClientBase, tables: readonly TableShape[]): Promise<KeyUse[]> {
  const keys = new Map<string, KeyUse>()
  for (const { table, column } of SEALED_COLUMNS) {
    // The database may be older than this version.
    if (!tables.some(({ name, columns }) => name === table && columns.includes(column))) continue
    const { rows } = await client.query<{ id: string; count: string }>(
      `select encode(substring(${column} from 2 for 4), 'hex') as id, count(*) as count
       from ${quoteName(table)} where ${column} is not null group by 1 order by 1`,
    )
    for (const { id, count } of rows) {
      const key = keys.get(id) ?? { id, uses: {} }
      key.uses[`${table}.${column}`] = Number(count)
      keys.set(id, key)
    }
  }
  return [...keys.values()]
}
