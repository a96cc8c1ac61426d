import type { DuckDBConnection } from '@duckdb/node-api'
import {
  columnType,
  describe,
  faultOfFile,
  identifier,
  IN_ORDER,
  isOutOfMemory,
  literal,
  numbers,
  reading,
  texts,
} from './duckdb.ts'
import { SAMPLED, type SampledRow } from './preview.ts'
import { decodedBytes, DatasetRefused, quoted, type DatasetColumn, type DatasetProfile } from './profile.ts'

/** The first attempts may run out of memory: a column chunk is decoded as a whole, and its size is up to the writer. */
const ATTEMPTS = [
  { memoryMb: 1_024, threads: 2 },
  { memoryMb: 1_024, threads: 1 },
]
/** DuckDB's message about its own memory limit. */
const MET_LIMIT = /[KMGT]iB\/[^)]* used\)/
/** Reading a few columns at a time limits memory use to a few chunks, but a pass per column could take minutes. */
const MAX_PASSES = 64

/**
 * Profiles a Parquet file: its footer describes it, and we decode every page, because only that reveals a damaged one.
 */
export function readParquet(path: string): Promise<DatasetProfile> {
  return reading(path, ATTEMPTS, (db) => readWith(db, `read_parquet(${literal(path)})`)).catch(
    (err: unknown) => {
      // One thread holds one row group. If that still reaches the limit, the row group is the cause, not the machine's
      // load.
      if (!isOutOfMemory(err) || !MET_LIMIT.test(String(err))) throw err
      throw new DatasetRefused('a row group is too large; write smaller ones', { cause: err })
    },
  )
}

/** Returns the first rows as text. */
export function sampleParquet(path: string, columns: readonly DatasetColumn[]): Promise<SampledRow[]> {
  const cut = columns
    .slice(0, SAMPLED.columns)
    .map(({ name }) => `left(${identifier(name)}::varchar, ${SAMPLED.characters + 1})`)
  return reading(path, IN_ORDER, (db) =>
    texts(db, `select ${cut.join(', ')} from read_parquet(${literal(path)}) limit ${SAMPLED.rows}`),
  )
}

async function readWith(db: DuckDBConnection, source: string): Promise<DatasetProfile> {
  const columns = await describe(db, `select * from ${source}`).catch((err: unknown) => {
    if (isOutOfMemory(err)) throw err
    throw new DatasetRefused(`the file is not Parquet: ${faultOfFile(err)}`, { cause: err })
  })

  let textBytes = 0
  const group = Math.ceil(columns.length / MAX_PASSES)
  for (let from = 0; from < columns.length; from += group) {
    const some = columns.slice(from, from + group)
    textBytes += await decode(db, source, some).catch(async () => {
      let bytes = 0
      for (const one of some)
        bytes += await decode(db, source, [one]).catch((err) => refuseColumn(one.name, err))
      return bytes
    })
  }
  const { n = 0 } = await numbers(db, `select count(*) as n from ${source}`)
  if (n === 0) throw new DatasetRefused('the file has no rows')
  return {
    num_samples: n,
    decoded_bytes: decodedBytes(n, columns.length, textBytes),
    columns: columns.map(({ name, type }) => ({ name, type: columnType(type) })),
  }
}

/** Decodes every value of these columns by hashing it; returns the bytes of values without a fixed size. */
async function decode(
  db: DuckDBConnection,
  source: string,
  columns: readonly DescribedColumn[],
): Promise<number> {
  const expressions = columns.flatMap(({ name, type }, i) => [
    `bit_xor(hash(${identifier(name)})) as h${i}`,
    ...sizeOf(identifier(name), type).map((size) => `coalesce(sum(${size}), 0) as s${i}`),
  ])
  const found = await numbers(db, `select ${expressions.join(', ')} from ${source}`)
  return columns.reduce((sum, _, i) => sum + (found[`s${i}`] ?? 0), 0)
}

interface DescribedColumn {
  name: string
  type: string
}

/**
 * Returns the SQL for the size of a value, for types whose values vary in size. A nested value takes about twice the
 * size of its text.
 */
function sizeOf(column: string, type: string): string[] {
  const kind = columnType(type)
  if (type === 'BLOB') return [`octet_length(${column})`]
  if (kind === 'string') return [`strlen(${column}::varchar)`]
  return ['list', 'object', 'any'].includes(kind) ? [`2 * strlen(${column}::varchar)`] : []
}

function refuseColumn(name: string, cause: unknown): never {
  if (isOutOfMemory(cause)) throw cause
  throw new DatasetRefused(`column ${quoted(name)}: ${faultOfFile(cause)}`, { cause })
}
