import { trimBlanks } from './csv-scan.ts'
import type { SampledRow } from './preview.ts'
import type { ColumnType, DatasetColumn } from './profile.ts'

// Reads the values of CSV cells by the trainers' rules (hearth_trainers/datasets/cells.py), so that a dataset is described
// the way that the trainers read it; a test compares the two.

/** Strings that mean a missing value in any column: pandas' defaults and spreadsheet errors. */
export const MISSING = [
  '|#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|None|n/a|nan|null|?',
  '#DIV/0!|#REF!|#VALUE!|#NAME?|#NUM!|#NULL!',
].flatMap((marks) => marks.split('|'))
/**
 * Strings that mean a missing value if all other values are numbers, booleans or dates; next to "+", "-" may be a
 * class.
 */
const MISSING_AMONG_VALUES = '-|--|.|..|na|Na|N.A.|n.a.|none|NONE|Null|Nan|NAN'.split('|')
export const MARKS = [...MISSING, ...MISSING_AMONG_VALUES]
const isMissing = new Set(MISSING)
const isMark = new Set(MARKS)

const GAP = new RegExp(`[ '’´\u00a0\u2009\u202f]`, 'g')
const GAPS = String.raw`[1-9]\d{0,2}(?:${GAP.source}\d{3})+`
/** In RE2, `\s` matches only ASCII whitespace. */
export const BLANKS = String.raw`[\s${'\u00a0\u2009\u202f'}]*`
const EXPONENT = String.raw`(?:[eE][+-]?\d+)?`
const POINTS = String.raw`(?:(?:\d+\.?\d*|\.\d+)${EXPONENT}|\d{1,3}(?:,\d{3})+(?:\.\d+)?|${GAPS}(?:\.\d+)?)`
const COMMAS = String.raw`(?:\d+(?:,\d+)?${EXPONENT}|(?:\d{1,3}(?:\.\d{3})+|${GAPS})(?:,\d+)?)`
const ANY_SYMBOL = '[€$£¥₹%]'
/** With these symbols a comma separates thousands, even if the values could be read differently. */
const POINT_SYMBOLS = '$£¥₹'

/** Patterns of numbers with a decimal point and with a decimal comma, for both JavaScript and RE2. */
export interface NumberPatterns {
  points: string
  commas: string
  symbol: string | undefined
}

/** Returns the patterns for a column from one of its values, which shows a currency or percent sign. */
export function patternsLike(value: string): NumberPatterns {
  const symbol = new RegExp(ANY_SYMBOL).exec(value)?.[0]
  const pattern = (body: string) =>
    symbol === undefined
      ? `${BLANKS}[+-]?${body}${BLANKS}`
      : `${BLANKS}(?:[+-]?[${symbol}]${BLANKS}[+-]?${body}|[+-]?${body}${BLANKS}[${symbol}])${BLANKS}`
  return { points: pattern(POINTS), commas: pattern(COMMAS), symbol }
}

/** The number of a column's values that fit each pattern, and the number that have a comma. */
export interface NumberCounts {
  values: number
  points: number
  commas: number
  withComma: number
}

/** Returns whether all values are numbers in one notation; false if both fit, unless no value has a comma. */
export function areNumbers({ values, points, commas, withComma }: NumberCounts, symbol?: string): boolean {
  const [isPoints, isCommas] = [points === values, commas === values]
  if (isPoints && isCommas) return withComma === 0 || (symbol !== undefined && POINT_SYMBOLS.includes(symbol))
  return values > 0 && (isPoints || isCommas)
}

const number = (pattern: string) => new RegExp(`^[+-]?${pattern}$`)
const NOTATIONS = { '.': number(POINTS), ',': number(COMMAS) } as const
// Numbers whose dot or comma may be a decimal mark or a thousands separator. A leading zero proves a decimal mark.
const OPEN = {
  '.': number(String.raw`[1-9]\d{0,2}(?:\.\d{3})+`),
  ',': number(String.raw`[1-9]\d{0,2}(?:,\d{3})+`),
} as const
const OPEN_POINTS = /^[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)$/
const WITH_GAPS = number(String.raw`${GAPS}(?:[.,]\d+)?`)

/** The values of a column without blanks, gaps and the symbol that they all share. */
interface StrippedColumn {
  texts: string[]
  symbol: string | undefined
  hasGaps: boolean
}

const has = ({ texts }: StrippedColumn, mark: string) => texts.some((text) => text.includes(mark))
const all = ({ texts }: StrippedColumn, test: RegExp) => texts.every((text) => test.test(text))
const proves = (bare: StrippedColumn, mark: '.' | ',') =>
  all(bare, NOTATIONS[mark]) && bare.texts.some((text) => text.includes(mark) && !OPEN[mark].test(text))

/**
 * Returns rows with the values that training reads: text without surrounding whitespace, and plain numbers, such as
 * `1234.5` for `1.234,50 €`. Other columns or the delimiter show whether `1.234` is a fraction.
 */
export function readValues(
  cells: readonly SampledRow[],
  columns: readonly DatasetColumn[],
  delimiter: string,
): SampledRow[] {
  const rows = cells.map((row) => row.map((cell) => withoutBlanks(cell)))
  const bare = columns.map((_, i) => bareOf(rows.map((row) => row[i] ?? '')))
  const hasPoints = bare.some((column) => proves(column, '.'))
  // Files with semicolons use decimal commas, but files with 12'500 don't separate thousands with dots.
  const isSign = delimiter === ';' && !bare.some((column) => column.hasGaps && all(column, /^[+-]?\d+$/))
  const hasCommas = bare.some((column) => proves(column, ','))
  // Coordinates have decimal points even in files with decimal commas.
  const areThousands = hasPoints ? hasCommas && isSign : hasCommas || isSign
  const decimals = bare.map((column, i) =>
    columns[i]?.type === 'number' ? decimalOf(column, areThousands) : undefined,
  )
  return rows.map((row) =>
    row.map((cell, i) => {
      const decimal = decimals[i]
      if (cell === null || decimal === undefined) return cell
      const text = withoutGaps(cell.replace(bare[i]?.symbol ?? '', '').trim())
      return decimal === '.' ? text.replaceAll(',', '') : text.replaceAll('.', '').replace(',', '.')
    }),
  )
}

function withoutBlanks(cell: string | null): string | null {
  const text = trimBlanks(cell ?? '')
  return isMissing.has(text) ? null : text
}

const withoutGaps = (text: string): string => (WITH_GAPS.test(text) ? text.replaceAll(GAP, '') : text)

function bareOf(cells: readonly string[]): StrippedColumn {
  const values = cells.map((text) => text.trim()).filter((text) => !isMark.has(text))
  const first = new RegExp(ANY_SYMBOL).exec(values[0] ?? '')?.[0]
  const symbol =
    first !== undefined && values.every((text) => text.split(first).length === 2) ? first : undefined
  const written = values.map((text) => text.replace(symbol ?? '', '').trim())
  const texts = written.map(withoutGaps)
  return { texts, symbol, hasGaps: written.some((text, i) => text !== texts[i]) }
}

/** Returns the decimal mark of all values; undefined if they are not numbers in one notation. */
function decimalOf(bare: StrippedColumn, areThousands: boolean): '.' | ',' | undefined {
  // A second dot, as in 1.234.567, proves that dots separate thousands.
  if (has(bare, '.') && all(bare, OPEN_POINTS)) {
    // A number such as 1500 shows that thousands are not separated.
    const isPlain = bare.texts.some((text) => /^[+-]?\d{4,}$/.test(text))
    return (areThousands && !isPlain) || bare.texts.some((text) => /\..*\./.test(text)) ? ',' : '.'
  }
  const [points, commas] = [all(bare, NOTATIONS['.']), all(bare, NOTATIONS[','])]
  if (points && commas)
    return !has(bare, ',') || (bare.symbol !== undefined && POINT_SYMBOLS.includes(bare.symbol))
      ? '.'
      : undefined
  return points ? '.' : commas ? ',' : undefined
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

/** Determines the type of a column from its values, one at a time. */
export class ColumnTyper {
  #values = 0
  #tests = TESTS
  #patterns: { points: RegExp; commas: RegExp; symbol: string | undefined } | undefined
  readonly #counts = { points: 0, commas: 0, withComma: 0 }

  add(cell: string): void {
    const [first] = this.#tests
    // Fast path: nearly every value has the same type as the previous one.
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
      // Either plain numbers came before this value, or the column is text.
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
