import { stat } from 'node:fs/promises'
import type { DuckDBConnection } from '@duckdb/node-api'
import { SNIFFED_ROWS } from '../../domain/datasets/columns.ts'
import { ATTEMPTS, columnType, describe, literal, numbers, reading } from './duckdb.ts'
import { JsonColumns } from './json-columns.ts'
import { decodeLine, readLines, readStart, tooLong } from './lines.ts'
import { cutText, SAMPLED, type SampledRow } from './preview.ts'
import {
  decodedBytes,
  DatasetRefused,
  MAX_ROW_BYTES,
  quoted,
  refusedLine,
  type DatasetColumn,
  type DatasetProfile,
} from './profile.ts'

/** DuckDB compares names case-insensitively, so it renames the second of `a` and `A`. */
const RENAMED = /_\d+$/
const BYTE_ORDER_MARK = Buffer.from('\ufeff')
/** DuckDB accepts a comma before a closing bracket, which JSON does not; inside a string it is valid. */
const LOOSE_COMMA = String.raw`,\s*[}\]]`

/**
 * Profiles JSON Lines: every line that is not blank must be one JSON object. The columns are those of the first
 * `SNIFFED_ROWS`.
 */
export async function readJsonl(path: string, attempts = ATTEMPTS): Promise<DatasetProfile> {
  // DuckDB reads the byte order mark as part of the first object.
  if ((await readStart(path, 3)).equals(BYTE_ORDER_MARK)) return scan(path)
  try {
    return await reading(path, attempts, (db) => readWith(db, path))
  } catch (err) {
    if (err instanceof DatasetRefused) throw err
    // DuckDB's errors don't prove that a file is bad: a long last line without a newline also causes one.
    return scan(path)
  }
}

/** Returns the first rows as text; nested values are JSON. */
export async function sampleJsonl(path: string, columns: readonly DatasetColumn[]): Promise<SampledRow[]> {
  const sample: SampledRow[] = []
  const names = columns.slice(0, SAMPLED.columns).map(({ name }) => name)
  for await (const { bytes } of readLines(path)) {
    // `trim` removes a byte order mark too.
    const text = decodeLine(bytes)?.trim()
    if (!text) continue
    const row = JSON.parse(text) as Record<string, unknown>
    sample.push(names.map((name) => (Object.hasOwn(row, name) ? textOf(row[name]) : null)))
    if (sample.length === SAMPLED.rows) break
  }
  return sample
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null
  return cutText(typeof value === 'string' ? value : JSON.stringify(value))
}

async function readWith(db: DuckDBConnection, path: string): Promise<DatasetProfile> {
  const rows = `(select json::varchar as row
    from read_json_objects(${literal(path)}, format = 'newline_delimited', maximum_object_size = ${MAX_ROW_BYTES}))`
  const found = await numbers(
    db,
    `select count(*) as n,
        count(*) filter (starts_with(row, '{')) as objects,
        count(*) filter (strlen(row) > ${MAX_ROW_BYTES}) as long,
        count(*) filter (regexp_matches(row, ${literal(LOOSE_COMMA)})) as suspicious
      from ${rows}`,
  )

  if (found.objects !== found.n || found.long) await nameFirstBadLine(path)
  if (found.suspicious && (await hasLooseComma(db, rows))) await nameFirstBadLine(path)
  if (!found.n) throw new DatasetRefused('the file has no rows')

  const columns = await columnsOf(db, path, rows)
  const { size } = await stat(path)
  return { num_samples: found.n, columns, decoded_bytes: decodedBytes(found.n, columns.length, size) }
}

/** Returns all keys of the first rows with the common type of their values. */
async function columnsOf(db: DuckDBConnection, path: string, rows: string): Promise<DatasetColumn[]> {
  const described = await describe(
    db,
    `select * from read_json(${literal(path)}, format = 'newline_delimited', maximum_depth = 2,
      sample_size = ${SNIFFED_ROWS}, map_inference_threshold = -1, maximum_object_size = ${MAX_ROW_BYTES})`,
  )
  const columns = described.map(({ name, type }) => ({ name, type: columnType(type) }))
  if (!columns.some(({ name }) => RENAMED.test(name))) return columns

  const keys = await db.runAndReadAll(
    `select distinct unnest(json_keys(row)) as key from (select row from ${rows} limit ${SNIFFED_ROWS})`,
  )
  const types = new Map(columns.map(({ name, type }) => [name, type]))
  const names = keys.getRowObjects().map(({ key }) => String(key))
  return names.toSorted().map((name) => ({ name, type: types.get(name) ?? 'any' }))
}

async function hasLooseComma(db: DuckDBConnection, rows: string): Promise<boolean> {
  const suspects = await db.stream(
    `select row from ${rows} where regexp_matches(row, ${literal(LOOSE_COMMA)})`,
  )
  for await (const page of suspects.yieldRowObjects()) {
    if (page.some(({ row }) => typeof objectOf(String(row)) === 'string')) return true
  }
  return false
}

/**
 * Reads the lines again in order, because DuckDB's line numbers are unreliable. This is slower than DuckDB, so we only
 * do it for files that are rejected.
 */
async function nameFirstBadLine(path: string): Promise<never> {
  await scanLines(path, () => {})
  throw new DatasetRefused('the file is not JSON Lines')
}

/** Reads line by line, which needs memory for one row only but is much slower than DuckDB. */
async function scan(path: string): Promise<DatasetProfile> {
  let rows = 0
  const found = new JsonColumns()
  await scanLines(path, (value) => {
    rows += 1
    if (rows <= SNIFFED_ROWS) found.add(value)
  })
  if (rows === 0) throw new DatasetRefused('the file has no rows')
  const columns = found.all()
  const { size } = await stat(path)
  return { num_samples: rows, columns, decoded_bytes: decodedBytes(rows, columns.length, size) }
}

/** Passes the object of each line that is not blank to `take`; throws for the first line without one. */
async function scanLines(path: string, take: (value: object) => void): Promise<void> {
  for await (const { line, bytes } of readLines(path)) {
    if (bytes.length > MAX_ROW_BYTES) throw tooLong(line)
    const text = decodeLine(bytes)
    if (text === undefined || (line === 1 && text.includes('\0'))) throw refusedLine(line, notUtf8(bytes))
    const bare = line === 1 ? text.replace(/^\ufeff/, '') : text
    if (bare.trim() === '') continue
    const value = objectOf(bare)
    if (typeof value === 'string') throw refusedLine(line, value)
    take(value)
  }
}

const notUtf8 = (bytes: Uint8Array): string =>
  bytes[0] === 0xff || bytes[0] === 0xfe || bytes.includes(0)
    ? 'not UTF-8 (it looks like UTF-16)'
    : 'not valid UTF-8'

/** Parses the object of a line, or returns what is wrong with the line. */
function objectOf(text: string): object | string {
  let value: unknown
  try {
    value = parse(text)
  } catch (err) {
    const reason = err instanceof Error ? err.message : String(err)
    return `not valid JSON (${reason.slice(0, 160)})`
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  return `not a JSON object but ${Array.isArray(value) ? 'an array' : quoted(text.trim(), 40)}`
}

/** A JSON number that overflows to Infinity. */
const OVERFLOWING = '1e999'

/**
 * Parses JSON as DuckDB and Python do: accepts NaN and Infinity, which the standard lacks, and rejects unpaired
 * surrogates.
 */
function parse(text: string): unknown {
  const standard = text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g, (found) =>
    found.startsWith('"') ? found : OVERFLOWING,
  )
  return JSON.parse(standard, (key, value: unknown) => {
    const isWhole = key.isWellFormed() && (typeof value !== 'string' || value.isWellFormed())
    if (!isWhole) throw new Error('half of a surrogate pair')
    return value
  })
}
