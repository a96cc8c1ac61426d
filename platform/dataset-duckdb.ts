import { DuckDBInstance, type DuckDBConnection } from '@duckdb/node-api'
import type { ColumnType } from './dataset-profile.ts'

/** Two threads and their read buffers fit; more of either only moves the memory up (bench/ingest). */
const MEMORY_MB = 160
const SETTINGS = { threads: '2', preserve_insertion_order: 'false' }

/** A database that can read exactly one file and nothing else of this machine. */
export async function openReader(path: string, memoryMb = MEMORY_MB): Promise<DuckDBConnection> {
  const instance = await DuckDBInstance.create(':memory:', {
    ...SETTINGS,
    memory_limit: `${memoryMb}MB`,
  })
  const connection = await instance.connect()
  await connection.run(`
    set allowed_paths = [${literal(path)}];
    set enable_external_access = false;
    set lock_configuration = true`)
  return connection
}

/** The one row of an aggregate, every value as a number. */
export async function numbers(db: DuckDBConnection, sql: string): Promise<Record<string, number>> {
  const [row = {}] = (await db.runAndReadAll(sql)).getRowObjects()
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value)]))
}

/** The columns of a query by DuckDB's own types. */
export async function describe(
  db: DuckDBConnection,
  query: string,
): Promise<{ name: string; type: string }[]> {
  const rows = (await db.runAndReadAll(`describe ${query}`)).getRowObjects()
  return rows.map((row) => ({ name: String(row.column_name), type: String(row.column_type) }))
}

export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`
export const identifier = (text: string): string => `"${text.replaceAll('"', '""')}"`

/** DuckDB's type in the words that all formats share. */
export function columnType(duckdb: string): ColumnType {
  if (duckdb.endsWith(']')) return 'list'
  const base = /^[A-Z]+/.exec(duckdb)?.[0] ?? ''
  if (/^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$/.test(base)) return 'integer'
  if (['FLOAT', 'DOUBLE', 'DECIMAL'].includes(base)) return 'number'
  if (['STRUCT', 'MAP', 'UNION'].includes(base)) return 'object'
  if (base.startsWith('TIMESTAMP')) return 'timestamp'
  const others: Record<string, ColumnType> = {
    BOOLEAN: 'boolean',
    DATE: 'date',
    BLOB: 'binary',
    JSON: 'any',
    VARIANT: 'any',
  }
  return others[base] ?? 'string'
}

/** What DuckDB says, without our path and its advice. */
export function firstLine(err: unknown): string {
  const text = err instanceof Error ? err.message : String(err)
  if (text.includes('Out of Memory')) return 'a row group is too large; write smaller ones'
  return (text.split('\n')[0] ?? '')
    .replaceAll(/(?:file )?(?:'?\/[^\s']+'?|"\/[^"]+")/g, 'the file')
    .slice(0, 200)
}
