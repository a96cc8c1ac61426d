import { stat } from 'node:fs/promises'
import type { DuckDBConnection } from '@duckdb/node-api'
import { HEADER_BYTES, nameFirstBadRecord, parseHeader, type CsvDialect } from './csv-scan.ts'
import { ATTEMPTS, IN_ORDER, isOutOfMemory, literal, numbers, reading, texts } from './duckdb.ts'
import { readStart } from './lines.ts'
import { SAMPLED, type SampledRow } from './preview.ts'
import {
  decodedBytes,
  DatasetRefused,
  MAX_ROW_BYTES,
  type ColumnType,
  type DatasetProfile,
} from './profile.ts'

const SAMPLE_ROWS = 8_192
/** Every counted column needs memory in each thread. */
const COLUMNS_PER_PASS = 100

/** Failing casts are slow, so only text that begins like a date is tried. */
const likeDate = (c: string, test: string) =>
  `case when ${c} similar to '[0-9]{4}-[0-9]{2}.*' then ${test} else false end`

/** The test by which a text value counts as each type, narrowest type first, and DuckDB's type for it. */
const TYPES = {
  // A fraction in a later row makes the whole column a number.
  integer: { duckdb: 'DOUBLE', fits: (c: string) => `regexp_full_match(${c}, '\\s*[+-]?[0-9]{1,18}\\s*')` },
  number: { duckdb: 'DOUBLE', fits: (c: string) => `try_cast(${c} as double) is not null` },
  boolean: { duckdb: 'BOOLEAN', fits: (c: string) => `lower(${c}) in ('true', 'false')` },
  date: {
    duckdb: 'DATE',
    fits: (c: string) => likeDate(c, `strlen(${c}) <= 10 and try_cast(${c} as date) is not null`),
  },
  timestamp: {
    duckdb: 'TIMESTAMPTZ',
    fits: (c: string) => likeDate(c, `try_cast(${c} as timestamptz) is not null`),
  },
} as const satisfies Partial<Record<ColumnType, { duckdb: string; fits: (column: string) => string }>>
type Typed = keyof typeof TYPES
const NARROWEST_FIRST = Object.keys(TYPES) as Typed[]

interface CsvFile {
  db: DuckDBConnection
  path: string
  dialect: CsvDialect
  /** The names of the columns in our statements. */
  names: string[]
}

/**
 * Profiles a CSV file with a header line, delimited by comma, semicolon, tab or bar, and quoted as in RFC 4180. Rows
 * are not guessed: a row whose number of fields differs from the header's makes the file invalid.
 */
export async function readCsv(path: string): Promise<DatasetProfile> {
  const dialect = parseHeader(await readStart(path, HEADER_BYTES))
  const names = dialect.header.map((_, i) => `c${i}`)
  return reading(path, ATTEMPTS, (db) => readWith({ db, path, dialect, names }))
}

/** Returns the first rows as texts. */
export async function sampleCsv(path: string): Promise<SampledRow[]> {
  const dialect = parseHeader(await readStart(path, HEADER_BYTES))
  const names = dialect.header.map((_, i) => `c${i}`)
  const cut = names.slice(0, SAMPLED.columns).map((c) => `left(${c}, ${SAMPLED.characters + 1})`)
  return reading(path, IN_ORDER, (db) =>
    texts(db, `select ${cut.join(', ')} from ${source({ db, path, dialect, names })} limit ${SAMPLED.rows}`),
  )
}

async function readWith(file: CsvFile): Promise<DatasetProfile> {
  const { path, dialect } = file
  const firstFault = (err: unknown): Promise<never> => {
    if (isOutOfMemory(err)) throw err
    return nameFirstBadRecord(path, dialect, err)
  }
  const likely = await sampleTypes(file).catch(firstFault)
  // The types of the first rows nearly always hold, and reading with them is fast. Otherwise
  // everything is read as text.
  const { rows, types } = await readTyped(file, likely)
    .catch(() => readAsText(file, likely))
    .catch(firstFault)
  if (rows === 0) throw new DatasetRefused('the file has a header and no rows')
  return {
    num_samples: rows,
    decoded_bytes: decodedBytes(rows, dialect.header.length, (await stat(path)).size),
    columns: dialect.header.map((name, i) => ({ name, type: types[i] ?? 'string' })),
  }
}

/** Returns, for each column, the types that fit all values of the first rows. */
async function sampleTypes(file: CsvFile): Promise<Typed[][]> {
  const sample = await countAll(file, `(select * from ${source(file)} limit ${SAMPLE_ROWS})`, (c) =>
    NARROWEST_FIRST.map((t) => fitting(c, t)),
  )
  return file.names.map((c) => NARROWEST_FIRST.filter((t) => sample[c] && sample[`${c}_${t}`] === sample[c]))
}

interface Found {
  rows: number
  types: ColumnType[]
}

async function readTyped(file: CsvFile, likely: readonly Typed[][]): Promise<Found> {
  const types = likely.map(([narrowest]) => narrowest)
  const duckdb = types.map((type) => (type ? TYPES[type].duckdb : 'VARCHAR'))
  const found = await countAll(file, source(file, duckdb), (c, i) =>
    types[i] === 'integer' ? [countIf(`${c} <> trunc(${c})`, `${c}_fractions`)] : [],
  )
  const typeOf = (c: string, i: number): ColumnType => {
    if (!found[c]) return 'any'
    return found[`${c}_fractions`] ? 'number' : (types[i] ?? 'string')
  }
  return { rows: found.n ?? 0, types: file.names.map(typeOf) }
}

async function readAsText(file: CsvFile, likely: readonly Typed[][]): Promise<Found> {
  const found = await countAll(file, source(file), (c, i) => (likely[i] ?? []).map((t) => fitting(c, t)))
  const typeOf = (c: string, i: number): ColumnType =>
    likely[i]?.find((t) => found[`${c}_${t}`] === found[c]) ?? (found[c] ? 'string' : 'any')
  return { rows: found.n ?? 0, types: file.names.map(typeOf) }
}

/** Counts the rows, the values of each column and further aggregates, a few columns at a time. */
async function countAll(
  { db, names }: CsvFile,
  from: string,
  more: (column: string, index: number) => string[],
): Promise<Record<string, number>> {
  const found: Record<string, number> = {}
  for (let start = 0; start < names.length; start += COLUMNS_PER_PASS) {
    const counts = names
      .slice(start, start + COLUMNS_PER_PASS)
      .flatMap((c, i) => [`count(${c}) as ${c}`, ...more(c, start + i)])
    Object.assign(found, await numbers(db, `select count(*) as n, ${counts.join(', ')} from ${from}`))
  }
  return found
}

/** Texts that mean a missing value, as for the trainers. */
const MISSING = ['', 'NA', 'N/A', 'NaN', 'nan', 'null', 'NULL', 'None', '?']

const source = ({ path, dialect, names }: CsvFile, types: readonly string[] = []): string =>
  `read_csv(${literal(path)}, auto_detect = false, header = true, strict_mode = true,
    delim = ${literal(dialect.delimiter)}, quote = '"', escape = '"', nullstr = [${MISSING.map(literal).join(', ')}],
    max_line_size = ${MAX_ROW_BYTES}, buffer_size = ${2 * MAX_ROW_BYTES},
    columns = {${names.map((name, i) => `'${name}': '${types[i] ?? 'VARCHAR'}'`).join(', ')}})`

const fitting = (column: string, type: Typed): string =>
  countIf(TYPES[type].fits(column), `${column}_${type}`)

/** `filter` is not used, because its cost grows with the square of the number of columns. */
const countIf = (test: string, name: string): string => `count(case when ${test} then 1 end) as ${name}`
