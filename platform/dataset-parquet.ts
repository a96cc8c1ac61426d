import type { DuckDBConnection } from '@duckdb/node-api'
import {
  columnType,
  describe,
  firstLine,
  identifier,
  literal,
  numbers,
  openReader,
} from './dataset-duckdb.ts'
import { DatasetRefused, type DatasetProfile } from './dataset-profile.ts'

/** A column chunk is unpacked as a whole, and writers differ in how large they make it. */
const MEMORY_MB = 1_024
/** Few columns at a time keep the memory at few column chunks; a pass for each of thousands would take minutes. */
const MAX_PASSES = 64

/** Parquet: the footer says what there is, and every page is decoded, for a damaged one shows only then. */
export async function readParquet(path: string): Promise<DatasetProfile> {
  const db = await openReader(path, MEMORY_MB)
  const source = `read_parquet(${literal(path)})`
  const columns = await describe(db, `select * from ${source}`).catch((err: unknown) => {
    throw new DatasetRefused(`the file is not Parquet: ${firstLine(err)}`, { cause: err })
  })

  const group = Math.ceil(columns.length / MAX_PASSES)
  for (let from = 0; from < columns.length; from += group) {
    const names = columns.slice(from, from + group).map(({ name }) => name)
    await decode(db, source, names).catch(async () => {
      for (const name of names) await decode(db, source, [name]).catch((err) => refuseColumn(name, err))
    })
  }
  const { n = 0 } = await numbers(db, `select count(*) as n from ${source}`)
  if (n === 0) throw new DatasetRefused('the file has no rows')
  return {
    num_samples: n,
    columns: columns.map(({ name, type }) => ({ name, type: columnType(type) })),
  }
}

/** Has every value of these columns looked at: a hash needs them all. */
const decode = (db: DuckDBConnection, source: string, names: readonly string[]) =>
  numbers(db, `select ${names.map((name) => `bit_xor(hash(${identifier(name)}))`).join(', ')} from ${source}`)

function refuseColumn(name: string, cause: unknown): never {
  throw new DatasetRefused(`column ${JSON.stringify(name)}: ${firstLine(cause)}`, { cause })
}
