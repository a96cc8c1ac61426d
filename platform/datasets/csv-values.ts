import type { SampledRow } from './preview.ts'
import type { ColumnType } from './profile.ts'

// The values of CSV cells by the rules of the trainers (hearth_trainers/cells.py), so that a dataset is described as it
// will be learnt; a test compares the two.

/** Texts that mean a missing value in every column: those of pandas, and the errors of spreadsheets. */
export const MISSING = [
  '|#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|None|n/a|nan|null|?',
  '#DIV/0!|#REF!|#VALUE!|#NAME?|#NUM!|#NULL!',
].flatMap((marks) => marks.split('|'))
/** Texts that mean a missing value where all others are numbers, booleans or dates; "-" may be a class next to "+". */
const MISSING_AMONG_VALUES = '-|--|.|..|na|Na|N.A.|n.a.|none|NONE|Null|Nan|NAN'.split('|')
export const MARKS = [...MISSING, ...MISSING_AMONG_VALUES]
const isMissing = new Set(MISSING)
const isMark = new Set(MARKS)

const GAP = new RegExp(`[ '’´\u00a0\u2009\u202f]`, 'g')
const GAPS = String.raw`[1-9]\d{0,2}(?:${GAP.source}\d{3})+`
/** RE2 knows only the blanks of ASCII by `\s`. */
export const BLANKS = String.raw`[\s${'\u00a0\u2009\u202f'}]*`
const EXPONENT = String.raw`(?:[eE][+-]?\d+)?`
const POINTS = String.raw`(?:(?:\d+\.?\d*|\.\d+)${EXPONENT}|\d{1,3}(?:,\d{3})+(?:\.\d+)?|${GAPS}(?:\.\d+)?)`
const COMMAS = String.raw`(?:\d+(?:,\d+)?${EXPONENT}|(?:\d{1,3}(?:\.\d{3})+|${GAPS})(?:,\d+)?)`
const ANY_SYMBOL = '[€$£¥₹%]'
/** With these a comma is between thousands, even if the values could be read otherwise. */
const POINT_SYMBOLS = '$£¥₹'

/** Patterns of numbers with a decimal point and with a decimal comma, for both JavaScript and RE2. */
export interface NumberPatterns {
  points: string
  commas: string
  symbol: string | undefined
}

/** Returns the patterns of a column by one of its values: whether it has a currency or a percent sign. */
export function patternsLike(value: string): NumberPatterns {
  const symbol = new RegExp(ANY_SYMBOL).exec(value)?.[0]
  const pattern = (body: string) =>
    symbol === undefined
      ? `${BLANKS}[+-]?${body}${BLANKS}`
      : `${BLANKS}(?:[+-]?[${symbol}]${BLANKS}[+-]?${body}|[+-]?${body}${BLANKS}[${symbol}])${BLANKS}`
  return { points: pattern(POINTS), commas: pattern(COMMAS), symbol }
}

/** How many values of a column fit each pattern, and how many have a comma. */
export interface NumberCounts {
  values: number
  points: number
  commas: number
  withComma: number
}

/** Returns whether all values are numbers of one notation; those that fit both are not, unless none has a comma. */
export function areNumbers({ values, points, commas, withComma }: NumberCounts, symbol?: string): boolean {
  const [isPoints, isCommas] = [points === values, commas === values]
  if (isPoints && isCommas) return withComma === 0 || (symbol !== undefined && POINT_SYMBOLS.includes(symbol))
  return values > 0 && (isPoints || isCommas)
}

const OPEN_POINTS = /^[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)$/
const PLAIN = new RegExp(String.raw`^[+-]?(?:\d+\.?\d*|\.\d+)${EXPONENT}$`)
const DECIMAL_COMMAS = new RegExp(String.raw`^[+-]?${COMMAS}$`)
const WITH_GAPS = new RegExp(String.raw`^[+-]?${GAPS}(?:[.,]\d+)?$`)
const COMMA_THOUSANDS = /^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$/

/**
 * Returns rows without the points between thousands, which other columns or the delimiter show by the rules of the
 * trainers; elsewhere `1.234` may be a fraction.
 */
export function withoutThousands(rows: SampledRow[], delimiter: string): SampledRow[] {
  const columns = (rows[0] ?? []).map((_, i) => bareValues(rows.flatMap((row) => row[i]?.trim() || [])))
  const has = (column: readonly string[], mark: string) => column.some((text) => text.includes(mark))
  const all = (column: readonly string[], test: RegExp) => column.every((text) => test.test(text))
  const isOpen = columns.map((column) => has(column, '.') && all(column, OPEN_POINTS))
  const hasCommas = columns.some(
    (column) => has(column, ',') && all(column, DECIMAL_COMMAS) && !all(column, COMMA_THOUSANDS),
  )
  const hasPoints = columns.some((column, i) => has(column, '.') && all(column, PLAIN) && !isOpen[i])
  const areThousands = hasCommas || (!hasPoints && delimiter === ';')
  // A second point, as in 1.234.567, proves thousands.
  const isCut = columns.map(
    (column, i) => isOpen[i] && (areThousands || column.some((text) => /\..*\./.test(text))),
  )
  return rows.map((row) => row.map((cell, i) => (isCut[i] ? (cell?.replaceAll('.', '') ?? null) : cell)))
}

/** Returns the values of a column without marks of missing values, gaps, and the symbol that all of them have. */
function bareValues(column: readonly string[]): string[] {
  const values = column.filter((text) => !isMark.has(text))
  const symbol = new RegExp(ANY_SYMBOL).exec(values[0] ?? '')?.[0]
  const isShared = symbol !== undefined && values.every((text) => text.split(symbol).length === 2)
  const bare = isShared ? values.map((text) => text.replace(symbol, '').trim()) : values
  return bare.map((text) => (WITH_GAPS.test(text) ? text.replaceAll(GAP, '') : text))
}

const TESTS: readonly [ColumnType, RegExp][] = [
  ['integer', /^\s*[+-]?\d{1,18}\s*$/],
  ['number', /^\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)\s*$/i],
  ['boolean', /^\s*(?:true|false)\s*$/i],
  ['date', /^\s*\d{4}-\d{2}-\d{2}\s*$/],
  [
    'timestamp',
    /^\s*\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?\s*$/,
  ],
]

/** Finds the type of a column from its values, one after the other. */
export class ColumnTyper {
  #values = 0
  #tests = TESTS
  #patterns: { points: RegExp; commas: RegExp; symbol: string | undefined } | undefined
  readonly #counts = { points: 0, commas: 0, withComma: 0 }

  add(cell: string): void {
    const [first] = this.#tests
    // Nearly every value is like the one before.
    if (cell !== '' && first?.[1].test(cell) && first[0] === 'integer') {
      this.#values += 1
      if (this.#patterns) this.#count(cell)
      return
    }
    if (isMissing.has(cell) || isMark.has(cell.trim())) return
    const before = this.#tests
    this.#tests = before.filter(([, test]) => test.test(cell))
    if (this.#tests.length === 0 || this.#patterns) this.#count(cell, before)
    this.#values += 1
  }

  #count(cell: string, before = this.#tests): void {
    if (!this.#patterns) {
      const { points, commas, symbol } = patternsLike(cell)
      this.#patterns = { points: new RegExp(`^${points}$`), commas: new RegExp(`^${commas}$`), symbol }
      // Plain numbers have come before this value, or the column is one of texts.
      const could = (type: ColumnType) => before.some(([name]) => name === type)
      this.#counts.points = could('number') ? this.#values : 0
      this.#counts.commas = could('integer') ? this.#values : 0
    }
    const { points, commas } = this.#patterns
    this.#counts.points += Number(points.test(cell))
    this.#counts.commas += Number(commas.test(cell))
    this.#counts.withComma += Number(cell.includes(','))
  }

  get type(): ColumnType {
    if (this.#values === 0) return 'any'
    const [first] = this.#tests
    if (first) return first[0]
    return areNumbers({ values: this.#values, ...this.#counts }, this.#patterns?.symbol) ? 'number' : 'string'
  }
}
