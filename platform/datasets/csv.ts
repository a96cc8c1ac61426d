import { stat } from 'node:fs/promises'
import type { DuckDBConnection } from '@duckdb/node-api'
import { HEADER_BYTES, nameFirstBadRecord, parseHeader, type CsvDialect } from './csv-scan.ts'
import {
  areNumbers,
  BLANKS,
  MARKS,
  MISSING,
  patternsLike,
  type NumberPatterns,
  readValues,
} from './csv-values.ts'
import { readCells, readWide, type CsvContent } from './csv-wide.ts'
import { ATTEMPTS, IN_ORDER, isOutOfMemory, literal, numbers, reading, texts } from './duckdb.ts'
import { readStart } from './lines.ts'
import { SAMPLED, type SampledRow } from './preview.ts'
import {
  decodedBytes,
  DatasetRefused,
  MAX_ROW_BYTES,
  type ColumnType,
  type DatasetColumn,
  type DatasetProfile,
} from './profile.ts'

const SAMPLE_ROWS = 8_192
/** A limit, because every counted column needs memory in each thread. */
const COLUMNS_PER_PASS = 100
/** DuckDB reads a file once per pass, so the cost is quadratic in the column count. We read wider files ourselves. */
const MAX_PASSES = 2

/** Applies a test only to short values: text may be megabytes long, and functions copy it. */
const short = (c: string, test: string): string => `case when strlen(${c}) <= 60 then ${test} else false end`
/** Applies a test only to text that begins like a date, because failing casts are slow. */
const likeDate = (c: string, test: string) =>
  `case when ${c} similar to ' *[0-9]{4}-[0-9]{2}.*' then ${test} else false end`

/** For each type, narrowest first, the test that a text value must pass, and DuckDB's type for it. */
const TYPES = {
  // A fraction in a later row makes the whole column a number.
  integer: { duckdb: 'DOUBLE', fits: (c: string) => `regexp_full_match(${c}, '\\s*[+-]?[0-9]{1,18}\\s*')` },
  // DuckDB reads 2023_01 as 202301.
  number: {
    duckdb: 'DOUBLE',
    fits: (c: string) => `try_cast(${c} as double) is not null and not contains(${c}, '_')`,
  },
  boolean: { duckdb: 'BOOLEAN', fits: (c: string) => short(c, `lower(trim(${c})) in ('true', 'false')`) },
  date: {
    duckdb: 'DATE',
    fits: (c: string) => likeDate(c, `strlen(trim(${c})) <= 10 and try_cast(${c} as date) is not null`),
  },
  timestamp: {
    duckdb: 'TIMESTAMPTZ',
    fits: (c: string) => likeDate(c, `try_cast(${c} as timestamptz) is not null`),
  },
} as const satisfies Partial<Record<ColumnType, { duckdb: string; fits: (column: string) => string }>>
type TypedColumn = keyof typeof TYPES
const NARROWEST_FIRST = Object.keys(TYPES) as TypedColumn[]

interface CsvFile {
  db: DuckDBConnection
  path: string
  dialect: CsvDialect
  /** The names of the columns in our statements. */
  names: string[]
}

/**
 * Profiles a CSV file with a header line, delimited by comma, semicolon, tab or bar, and quoted as in RFC 4180. We
 * don't guess: a row whose number of fields differs from the header's makes the file invalid.
 */
export async function readCsv(path: string): Promise<DatasetProfile> {
  const dialect = parseHeader(await readStart(path, HEADER_BYTES))
  const names = dialect.header.map((_, i) => `c${i}`)
  const isWide = names.length > COLUMNS_PER_PASS * MAX_PASSES || dialect.isOdd
  const { rows, types } = await (isWide
    ? readWide(path, dialect)
    : reading(path, ATTEMPTS, (db) => readWith({ db, path, dialect, names })))
  if (rows === 0) throw new DatasetRefused('the file has a header and no rows')
  const shown = shownColumns(dialect, types)
  return {
    num_samples: rows,
    decoded_bytes: decodedBytes(rows, shown.length, (await stat(path)).size),
    columns: shown.map((i) => ({ name: dialect.header[i] ?? '', type: types[i] ?? 'string' })),
  }
}

/** Leaves out columns with neither a name nor values: each is only a trailing delimiter. */
const shownColumns = ({ header, unnamed }: CsvDialect, types: readonly ColumnType[]): number[] =>
  header.flatMap((_, i) => (unnamed.includes(i) && types[i] === 'any' ? [] : [i]))

/** Returns the first rows of a profile's columns as text, with numbers in plain notation. */
export async function sampleCsv(path: string, columns: readonly DatasetColumn[]): Promise<SampledRow[]> {
  const dialect = parseHeader(await readStart(path, HEADER_BYTES))
  const shown = columns.slice(0, SAMPLED.columns)
  const cells = await (dialect.isOdd ? sampleCells : sampleTable)(path, dialect, shown)
  return readValues(cells, shown, dialect.delimiter)
}

function sampleTable(
  path: string,
  dialect: CsvDialect,
  columns: readonly DatasetColumn[],
): Promise<SampledRow[]> {
  const names = dialect.header.map((_, i) => `c${i}`)
  const cut = columns.map(({ name, type }) => {
    const c = `c${dialect.header.indexOf(name)}`
    const text = `left(${c}, ${SAMPLED.characters + 1})`
    return type === 'string' ? text : `case when not (${isMarkIn(c)}) then ${text} end`
  })
  return reading(path, IN_ORDER, (db) => {
    const from = source({ db, path, dialect, names }, { missing: MISSING })
    return texts(db, `select ${cut.join(', ')} from ${from} limit ${SAMPLED.rows}`)
  })
}

async function sampleCells(
  path: string,
  dialect: CsvDialect,
  columns: readonly DatasetColumn[],
): Promise<SampledRow[]> {
  const shown = columns.map(({ name, type }) => ({
    at: dialect.header.indexOf(name),
    missing: type === 'string' ? MISSING : MARKS,
  }))
  const rows: SampledRow[] = []
  for await (const cells of readCells(path, dialect)) {
    rows.push(
      shown.map(({ at, missing }) => {
        const cell = cells[at] ?? ''
        return missing.includes(cell.trim()) ? null : cell.slice(0, SAMPLED.characters + 1)
      }),
    )
    if (rows.length === SAMPLED.rows) break
  }
  return rows
}

async function readWith(file: CsvFile): Promise<CsvContent> {
  const { path, dialect } = file
  const firstFault = (err: unknown): Promise<never> => {
    if (isOutOfMemory(err)) throw err
    return nameFirstBadRecord(path, dialect, err)
  }
  const sampled = await sampleTypes(file).catch(firstFault)
  // The types of the first rows nearly always fit the whole file, and reading with them is fast. If they don't, we read
  // everything as text.
  return readTyped(file, sampled)
    .catch(() => readAsText(file, sampled.likely))
    .catch(firstFault)
}

/** The types that a column's first rows allow and, for a text column, the patterns of numbers in other notations. */
interface ColumnGuess {
  types: TypedColumn[]
  patterns: NumberPatterns | undefined
}

interface CsvSample {
  likely: ColumnGuess[]
  /** The strings that mean a missing value, among those in the first rows. */
  marks: string[]
}

async function sampleTypes(file: CsvFile): Promise<CsvSample> {
  const sample = `(select * from ${source(file)} limit ${SAMPLE_ROWS})`
  const counts = await countAll(file, sample, (c) => [marks(c), ...NARROWEST_FIRST.map((t) => fitting(c, t))])
  const types = file.names.map((c) => NARROWEST_FIRST.filter((t) => allFit(counts, c, t)))
  const textual = file.names.filter((c, i) => valuesOf(counts, c) && types[i]?.length === 0)
  const marked = file.names.filter((c) => counts[`${c}_marks`])
  const expressions = [...textual.map(firstNumeric), ...marked.map(distinctMarks)]
  const [first = []] = expressions.length
    ? await texts(file.db, `select ${expressions.join(', ')} from ${sample}`)
    : []
  const patterns = new Map(
    textual.flatMap((c, i) => {
      const value = first[i]
      return value ? [[c, patternsLike(value)] as const] : []
    }),
  )
  return {
    likely: file.names.map((c, i) => ({ types: types[i] ?? [], patterns: patterns.get(c) })),
    marks: [...new Set(first.slice(textual.length).flatMap((all) => all?.split('|') ?? []))],
  }
}

/** Joins the distinct strings that mean a missing value with a bar, which none of them contains. */
const distinctMarks = (c: string): string =>
  `string_agg(distinct case when ${isMarkIn(c)} then ${c} end, '|')`

/** A value that begins like a number, with or without a symbol. */
const firstNumeric = (c: string): string =>
  `any_value(case when strlen(${c}) <= 60 and regexp_matches(${c}, '^${BLANKS}[-+]?${BLANKS}[€$£¥₹]?${BLANKS}[-+.]?[0-9]') then ${c} end)`

async function readTyped(file: CsvFile, { likely, marks: seen }: CsvSample): Promise<CsvContent> {
  const types = likely.map(({ types: [narrowest] }) => narrowest)
  const duckdb = types.map((type) => (type ? TYPES[type].duckdb : 'VARCHAR'))
  const counts = await countAll(file, source(file, { types: duckdb, missing: ['', ...seen] }), (c, i) =>
    types[i] === 'integer'
      ? [countIf(`${c} <> trunc(${c})`, `${c}_fractions`)]
      : types[i] === undefined
        ? asNumbers(c, likely[i])
        : [],
  )
  const typeOf = (c: string, i: number): ColumnType => {
    if (!counts[c]) return 'any'
    if (types[i] === undefined) return textType(counts, c, likely[i])
    return counts[`${c}_fractions`] ? 'number' : types[i]
  }
  return { rows: counts.n ?? 0, types: file.names.map(typeOf) }
}

async function readAsText(file: CsvFile, likely: readonly ColumnGuess[]): Promise<CsvContent> {
  const counts = await countAll(file, source(file), (c, i) => [
    marks(c),
    ...(likely[i]?.types ?? []).map((t) => fitting(c, t)),
    ...asNumbers(c, likely[i]),
  ])
  const typeOf = (c: string, i: number): ColumnType => {
    if (!valuesOf(counts, c)) return 'any'
    return likely[i]?.types.find((t) => allFit(counts, c, t)) ?? textType(counts, c, likely[i])
  }
  return { rows: counts.n ?? 0, types: file.names.map(typeOf) }
}

type Counts = Record<string, number>
const isMarkIn = (c: string): string => short(c, `trim(${c}) in (${MARKS.map(literal).join(', ')})`)
const marks = (c: string): string => countIf(isMarkIn(c), `${c}_marks`)
const valuesOf = (counts: Counts, c: string): number => (counts[c] ?? 0) - (counts[`${c}_marks`] ?? 0)
const allFit = (counts: Counts, c: string, type: TypedColumn): boolean =>
  valuesOf(counts, c) > 0 && counts[`${c}_${type}`] === valuesOf(counts, c)

/** Counts the values that are numbers in another notation. */
function asNumbers(c: string, { patterns }: ColumnGuess = { types: [], patterns: undefined }): string[] {
  if (!patterns) return []
  const { points, commas } = patterns
  const fits = (pattern: string) => `strlen(${c}) <= 60 and regexp_full_match(${c}, ${literal(pattern)})`
  return [
    countIf(fits(points), `${c}_points`),
    countIf(fits(commas), `${c}_commas`),
    countIf(`contains(${c}, ',')`, `${c}_with_comma`),
  ]
}

function textType(
  counts: Counts,
  c: string,
  { patterns }: ColumnGuess = { types: [], patterns: undefined },
): ColumnType {
  if (!patterns) return 'string'
  const found = {
    values: valuesOf(counts, c),
    points: counts[`${c}_points`] ?? 0,
    commas: counts[`${c}_commas`] ?? 0,
    withComma: counts[`${c}_with_comma`] ?? 0,
  }
  return areNumbers(found, patterns.symbol) ? 'number' : 'string'
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

interface ReadSettings {
  types?: readonly string[]
  /** DuckDB compares every cell with each of these; with a long list this dominates the cost. */
  missing?: readonly string[]
}

const source = (
  { path, dialect, names }: CsvFile,
  { types = [], missing = [''] }: ReadSettings = {},
): string =>
  `read_csv(${literal(path)}, auto_detect = false, header = true, skip = ${dialect.skippedLines}, strict_mode = true,
    delim = ${literal(dialect.delimiter)}, quote = '"', escape = '"', nullstr = [${missing.map(literal).join(', ')}],
    max_line_size = ${MAX_ROW_BYTES}, buffer_size = ${2 * MAX_ROW_BYTES},
    columns = {${names.map((name, i) => `'${name}': '${types[i] ?? 'VARCHAR'}'`).join(', ')}})`

const fitting = (column: string, type: TypedColumn): string =>
  countIf(TYPES[type].fits(column), `${column}_${type}`)

/** We don't use `filter`, because its cost is quadratic in the number of columns. */
const countIf = (test: string, name: string): string => `count(case when ${test} then 1 end) as ${name}`
