import type { ClientBase } from 'pg'
import pg from 'pg'
import { BACKUP_APPLICATION } from './backup/connection.ts'

/** Open work of one kind, counted in the database. */
export interface OpenWork {
  kind: string
  count: number
}

/** A node that may still connect. */
export interface NodeVersion {
  name: string
  runtime_version: string
}

/** The facts about an upgrade that a database knows. */
export interface UpgradeState {
  applied: readonly string[]
  /** The oldest migration that a process must know; undefined for databases from before 0.12. */
  oldest: { migration: number; version: string } | undefined
  open: readonly OpenWork[]
  nodes: readonly NodeVersion[]
  sizeBytes: number
  largestTableBytes: number
  /** The number of running backups. A migration would wait for them, and writers for the migration. */
  backups: number
}

/** Counts by kind. Each runs only if the database has the column, because it may be older than this version. */
const COUNTS: readonly { kind: string; table: string; column: string; where: string }[] = [
  {
    kind: 'runs and merges',
    table: 'training_run',
    column: 'status',
    where: `status in ('pending', 'running') and deleted_at is null`,
  },
  {
    kind: 'paused runs',
    table: 'training_run',
    column: 'paused_at',
    where: `status in ('pending', 'running') and paused_at is not null and deleted_at is null`,
  },
  { kind: 'tasks', table: 'task', column: 'status', where: `status not in ('succeeded', 'failed')` },
  {
    kind: 'cohorts',
    table: 'cohort',
    column: 'status',
    where: `status not in ('succeeded', 'failed', 'cancelled')`,
  },
  {
    kind: 'structured runs',
    table: 'structured_run',
    column: 'status',
    where: `status not in ('registered', 'rejected', 'failed')`,
  },
  {
    kind: 'webhook deliveries',
    table: 'webhook_delivery',
    column: 'status',
    where: `status in ('pending', 'delivering', 'retrying')`,
  },
]

/** Reads the state of a database without changing anything. Works on databases of older and newer versions. */
export async function readUpgradeState(url: string): Promise<UpgradeState> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('begin isolation level repeatable read, read only')
    const columns = await columnsOf(client)
    const has = (table: string, column: string) => columns.has(`${table}.${column}`)
    const open: OpenWork[] = []
    for (const { kind, table, column, where } of COUNTS) {
      if (has(table, column))
        open.push({ kind, count: await numberOf(client, `select count(*) from ${table} where ${where}`) })
    }
    return {
      applied: has('kysely_migration', 'name')
        ? await textsOf(client, 'select name as value from kysely_migration order by name')
        : [],
      oldest: has('schema_compatibility', 'oldest_migration') ? await oldestOf(client) : undefined,
      open,
      nodes: has('node', 'runtime_version') ? await nodesOf(client) : [],
      sizeBytes: await numberOf(client, 'select pg_database_size(current_database())'),
      largestTableBytes: await numberOf(
        client,
        `select coalesce(max(pg_total_relation_size(oid)), 0) from pg_class
         where relkind = 'r' and relnamespace = current_schema()::regnamespace`,
      ),
      backups: await numberOf(
        client,
        `select count(*) from pg_stat_activity
         where datname = current_database() and application_name = '${BACKUP_APPLICATION}'`,
      ),
    }
  } finally {
    await client.end()
  }
}

async function columnsOf(client: ClientBase): Promise<Set<string>> {
  return new Set(
    await textsOf(
      client,
      `select table_name || '.' || column_name as value from information_schema.columns
       where table_schema = current_schema()`,
    ),
  )
}

async function oldestOf(client: ClientBase): Promise<UpgradeState['oldest']> {
  const { rows } = await client.query<{ migration: number; version: string }>(
    'select oldest_migration as migration, oldest_version as version from schema_compatibility',
  )
  return rows[0]
}

async function nodesOf(client: ClientBase): Promise<NodeVersion[]> {
  const { rows } = await client.query<NodeVersion>(
    `select name, runtime_version from node where status <> 'removed' order by name`,
  )
  return rows
}

async function textsOf(client: ClientBase, text: string): Promise<string[]> {
  const { rows } = await client.query<{ value: string }>(text)
  return rows.map(({ value }) => value)
}

async function numberOf(client: ClientBase, text: string): Promise<number> {
  const { rows } = await client.query<Record<string, string>>(text)
  return Number(Object.values(rows[0] ?? {})[0] ?? 0)
}
