import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance, type DuckDBConnection } from '@duckdb/node-api'
import type { ColumnType } from './profile.ts'

export interface ReaderOptions {
  memoryMb: number
  threads: number
}

/**
 * Two threads and their read buffers fit into this memory; more of either only increases memory use (bench/ingest). A
 * file that does not fit is read by one thread with more memory.
 */
export const ATTEMPTS: readonly ReaderOptions[] = [
  { memoryMb: 160, threads: 2 },
  { memoryMb: 1_024, threads: 1 },
]

/** One thread reads rows in the order of the file. */
export const IN_ORDER: readonly ReaderOptions[] = [{ memoryMb: 512, threads: 1 }]

/** Opens a database that can read exactly one file and nothing else on this machine. */
async function openReader(path: string, { memoryMb, threads }: ReaderOptions): Promise<DuckDBConnection> {
  const instance = await DuckDBInstance.create(':memory:', {
    preserve_insertion_order: 'false',
    threads: String(threads),
    memory_limit: `${memoryMb}MB`,
    // The default is `.tmp` in the current folder, where a killed reader's files would stay.
    temp_directory: join(tmpdir(), '.duckdb'),
  })
  const connection = await instance.connect()
  await connection.run(`
    set allowed_paths = [${literal(path)}];
    set enable_external_access = false;
    set lock_configuration = true`)
  return connection
}

/**
 * Reads a file, and retries with the next options after running out of memory: how much memory the threads hold at once
 * depends on their timing, not on the file.
 */
export async function reading<T>(
  path: string,
  attempts: readonly ReaderOptions[],
  read: (db: DuckDBConnection) => Promise<T>,
): Promise<T> {
  let cause: unknown
  for (const options of attempts) {
    try {
      return await read(await openReader(path, options))
    } catch (err) {
      if (!isOutOfMemory(err)) throw err
      cause = err
    }
  }
  throw cause
}

/** Returns whether DuckDB reached its limit or the machine ran out of memory; neither makes a file invalid. */
export const isOutOfMemory = (err: unknown): boolean =>
  err instanceof Error && /Out of Memory|bad_alloc/i.test(err.message)

/** Returns the one row of an aggregate, with every value as a number. */
export async function numbers(db: DuckDBConnection, sql: string): Promise<Record<string, number>> {
  const [row = {}] = (await db.runAndReadAll(sql)).getRowObjects()
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value)]))
}

/** Returns the rows of a query whose values are all text. */
export const texts = async (db: DuckDBConnection, sql: string): Promise<(string | null)[][]> =>
  (await db.runAndReadAll(sql))
    .getRows()
    .map((row) => row.map((value) => (value === null ? null : String(value))))

/** Returns the columns of a query with DuckDB's own types. */
export async function describe(
  db: DuckDBConnection,
  query: string,
): Promise<{ name: string; type: string }[]> {
  const rows = (await db.runAndReadAll(`describe ${query}`)).getRowObjects()
  return rows.map((row) => ({ name: String(row.column_name), type: String(row.column_type) }))
}

export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`
export const identifier = (text: string): string => `"${text.replaceAll('"', '""')}"`

/** Maps DuckDB's type to the types that all formats share. */
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

/** DuckDB's messages for the most common faults, reworded for the owner of the file. */
const FAULTS: readonly [RegExp, string][] = [
  [
    /magic bytes|too small to be a Parquet/i,
    'it does not begin and end like a Parquet file; was it truncated?',
  ],
  [/Footer length/i, 'its footer is damaged; was it truncated?'],
  [/TProtocolException|Invalid data|Corrupt|decompress|snappy|ZSTD|gzip/i, 'its data is damaged'],
]

/** Returns DuckDB's error about a file, without our path, DuckDB's advice or the error class. */
export function faultOfFile(err: unknown): string {
  const text = err instanceof Error ? err.message : String(err)
  const knownFault = FAULTS.find(([pattern]) => pattern.test(text))
  if (knownFault) return knownFault[1]
  return (text.split('\n')[0] ?? '')
    .replace(/^(?:[A-Z][A-Za-z-]* )+Error: /, '')
    .replaceAll(/(?:file )?(?:'?\/[^\s']+'?|"\/[^"]+")/g, 'the file')
    .slice(0, 200)
}
