import { faultOfFile } from './duckdb.ts'
import { decodeLine, readLines, tooLong } from './lines.ts'
import { DatasetRefused, MAX_COLUMNS, MAX_ROW_BYTES, quoted, refusedLine } from './profile.ts'

/** The delimiter and the columns of a file. */
export interface CsvDialect {
  delimiter: string
  /** The names of all columns; unnamed ones get the names that pandas would give them. */
  header: string[]
  /** The positions of columns without a name in the file. */
  unnamed: number[]
  /** The number of lines before the header: Excel writes and reads one that names the delimiter. */
  skippedLines: 0 | 1
  /**
   * True if DuckDB would lose rows: after a line break in the header, or a byte order mark with a quoted `sep=` line.
   */
  isOdd: boolean
}

const DELIMITERS = [',', ';', '\t', '|']

/** The header must fit into this many bytes at the start of the file; `MAX_NAMES_BYTES` bounds the names themselves. */
export const HEADER_BYTES = 1024 * 1024

/** Parses the header at the start of a file: a unique name for every column. */
export function parseHeader(start: Buffer): CsvDialect {
  if (start.length === 0) throw new DatasetRefused('the file is empty')
  if ((start[0] === 0xff && start[1] === 0xfe) || (start[0] === 0xfe && start[1] === 0xff)) {
    throw refusedLine(1, 'not UTF-8 (it looks like UTF-16)')
  }
  const bom = start[0] === 0xef && start[1] === 0xbb && start[2] === 0xbf ? 3 : 0
  const given = SEPARATOR_LINE.exec(start.subarray(bom, bom + 16).toString('latin1'))
  const from = bom + (given?.[0].length ?? 0)
  const sample = start.subarray(from).toString()
  const isCut = start.length === HEADER_BYTES
  const delimiter = given?.[1] ?? delimiterOf(sample, isCut)
  const length = Buffer.byteLength(headerIn(sample, delimiter, isCut))
  if (from + length >= HEADER_BYTES)
    throw refusedLine(1, 'the column names exceed the limit of 1 MB in total')
  const text = decodeLine(start.subarray(from, from + length))
  if (text === undefined) throw refusedLine(1, 'not valid UTF-8')
  if (text.includes('\0')) throw refusedLine(1, 'holds the character NUL (is it UTF-16?)')
  if (text.trim() === '') throw refusedLine(1, 'blank where the names of the columns should be')

  const written = splitRecord(text, delimiter).map(trimBlanks)
  if (written.length > MAX_COLUMNS) throw refusedLine(1, `more than ${MAX_COLUMNS} columns`)
  const header = columnNames(written)
  const seen = new Map<string, number>()
  for (const [index, name] of header.entries()) {
    const earlier = seen.get(name)
    if (earlier !== undefined) {
      throw refusedLine(1, `columns ${earlier + 1} and ${index + 1} are both named ${quoted(name)}`)
    }
    seen.set(name, index)
  }
  const unnamed = written.flatMap((name, index) => (name === '' ? [index] : []))
  const title = unnamed.length > 0 && titleIn(bareLines(sample, delimiter), delimiter)
  if (title) throw refusedLine(given ? 2 : 1, title)
  const isOdd = /[\r\n]/.test(text) || (bom > 0 && given?.[0].startsWith('"') === true)
  return { delimiter, header, unnamed, skippedLines: given ? 1 : 0, isOdd }
}

const SEPARATOR_LINE = /^"?sep=([,;\t|])"?\r?\n/i

/** Names columns without a name as pandas and the trainers do: the index that pandas writes becomes `Unnamed: 0`. */
function columnNames(written: readonly string[]): string[] {
  const taken = new Set(written)
  return written.map((name, index) => {
    let free = name === '' ? `Unnamed: ${index}` : name
    while (name === '' && taken.has(free)) free += '_'
    return free
  })
}

/**
 * Returns what is wrong with a header that looks like a title: at least a third of it after its first name is blank,
 * although half of the first rows have values there. Excel writes titles and merged cells this way. An index column,
 * which pandas and R leave unnamed, comes before the first name.
 */
function titleIn(lines: readonly string[], delimiter: string): string | undefined {
  const isFilled = (cell: string) => /[^ "]/.test(cell)
  const [header = [], ...rows] = lines
    .slice(0, 1 + SAMPLED_ROWS)
    .map((line) => line.split(delimiter).map(isFilled))
  const first = header.indexOf(true)
  const blank = header.flatMap((isNamed, at) => (at > first && !isNamed ? [at] : []))
  const names = header.filter(Boolean).length
  const isBlank = header.length > 1 && (names < 2 || (blank.length >= 2 && blank.length >= names / 2))
  const filled = rows.filter((row) => blank.some((at) => row[at])).length
  if (!isBlank || filled === 0 || 2 * filled < rows.length) return undefined
  return (
    `the header names only ${names} of ${header.length} columns, but rows have values in the unnamed ones; ` +
    'start the file with a row of column names'
  )
}

/** Removes spaces around a cell, but no other whitespace. */
export const trimBlanks = (cell: string): string => cell.replaceAll(/^ +|(?<! ) +$/g, '')

/** Returns the first record of the text. */
function headerIn(text: string, delimiter: string, isCut: boolean): string {
  let [end, isOpen] = [0, false]
  for (const { 0: line } of text.matchAll(/[^\r\n]*(?:\r\n|\r|\n|$)/g)) {
    isOpen = isOpenAfter(line, isOpen, delimiter)
    end += line.length
    if (!isOpen) return text.slice(0, end).replace(/[\r\n]+$/, '')
  }
  if (!isCut) throw refusedLine(1, 'a quoted column name is never closed')
  return text
}

/** The number of rows that decide between several delimiters. */
const SAMPLED_ROWS = 100
const QUOTED = '"[^"]*(?:""[^"]*)*'

/** A candidate delimiter, and the first lines of the file parsed with it. */
interface Candidate {
  mark: string
  lines: string[]
  count: number
  /** The number of rows with as many fields as the header. */
  fitting: number
}

/**
 * Returns the header's delimiter. If several delimiters fit equally many rows, we exclude one that splits brackets or
 * only pads another, prefer a tab, and treat commas as cell text if all are decimal commas or followed by a space. A
 * header with no delimiter is rejected as a title if most rows contain the same number of one delimiter. The trainers
 * and `query_table` do the same (`csv_layout.py`).
 */
function delimiterOf(text: string, isCut: boolean): string {
  let ofRows: string | undefined
  const candidates = DELIMITERS.flatMap((mark): Candidate[] => {
    const lines = bareLines(text, mark)
      .slice(0, isCut ? -1 : undefined)
      .slice(0, 1 + SAMPLED_ROWS)
    const [header = '', ...rows] = lines
    const count = countOf(header, mark)
    if (mark !== ',' && isUsual(mark, rows)) ofRows ??= mark
    if (count === 0) return []
    const isFaulty = (line: string) => new RegExp(`\0 *[^ ${mark}]`).test(line)
    const fits = (row: string) => hasFields(row, countOf(row, mark), count, mark) && !isFaulty(row)
    return [{ mark, lines, count, fitting: isFaulty(header) ? -1 : rows.filter(fits).length }]
  })
  if (candidates.length === 0 && ofRows !== undefined)
    throw refusedLine(
      1,
      `the header contains no "${ofRows}", but the rows do; start the file with a row of column names, ` +
        'or with the line sep=, if it has only one column',
    )
  const most = Math.max(...candidates.map(({ fitting }) => fitting))
  const all = candidates.filter(({ fitting }) => fitting === most)
  const sound = all.filter((one) => !cutsBrackets(one) && !isPadding(one))
  const best = sound.length > 0 ? sound : all
  // A tab is unlikely to be part of a cell.
  if (best.some(({ mark }) => mark === '\t')) return '\t'
  const [comma, ...others] = best[0]?.mark === ',' && most > 0 ? best : []
  const areInCells = comma && others.length > 0 && others.every((other) => hasCommasInCells(other, comma))
  const [first, second] = areInCells ? others : best
  if (second) {
    const [a, b] = [first?.mark, second.mark]
    throw refusedLine(
      1,
      `the delimiter could be "${a}" or "${b}"; add the line sep=${a} or sep=${b} before the header`,
    )
  }
  return first?.mark ?? ','
}

const isBalanced = (text: string): boolean => text.split(/[([{]/).length === text.split(/[)\]}]/).length

/** Returns whether a delimiter splits bracket pairs between cells, in a line without stray quotes. */
const cutsBrackets = ({ mark, lines }: Candidate): boolean =>
  lines.some((line) => !line.includes('"') && isBalanced(line) && !line.split(mark).every(isBalanced))

/** Returns whether all tabs are next to other delimiters or at the ends of lines. */
const isPadding = ({ mark, lines }: Candidate): boolean =>
  mark === '\t' && lines.every((line) => line.split(/[,;|]/).every((cell) => !cell.trim().includes('\t')))

/** Returns whether the other delimiter splits the header and the commas look like cell text. */
function hasCommasInCells(other: Candidate, comma: Candidate): boolean {
  const { mark, lines, count } = other
  const [header = ''] = lines
  const splitsNames = header
    .split(mark)
    .slice(1)
    .some((name) => name.trim() !== '')
  const areFew = count >= comma.count || !lines.some((line) => new RegExp(`,[^${mark}]*,`).test(line))
  const areDecimal = comma.lines.slice(1).every((row) => !/(?<!\d),|,(?!\d)/.test(row))
  return splitsNames && areFew && (areDecimal || (isSpaced(comma) && !isSpaced(other)))
}

/** Returns whether every delimiter is followed by a space, and none precedes a quoted cell. */
const isSpaced = ({ mark, lines }: Candidate): boolean =>
  !lines.some((line) => new RegExp(`[${mark}](?! )|[${mark}] *"`).test(line))

/** Returns whether more than half of the rows contain a delimiter the same number of times. */
function isUsual(mark: string, rows: readonly string[]): boolean {
  const counts = rows.map((row) => countOf(row, mark)).filter((count) => count > 0)
  return counts.some((count) => 2 * counts.filter((other) => other === count).length > rows.length)
}

/** Returns whether a row has as many delimiters as the header, or extra ones at its end, which DuckDB accepts. */
export function hasFields(text: string, delimiters: number, expected: number, delimiter: string): boolean {
  const surplus = delimiters - expected
  return surplus >= 0 && text.endsWith(delimiter.repeat(surplus))
}

const countOf = (text: string, mark: string): number => text.split(mark).length - 1

/** Returns the lines that are not blank, with a NUL for each quoted cell that is not empty. */
const bareLines = (text: string, mark: string): string[] =>
  text
    .replaceAll(new RegExp(`(^|[${mark}\\r\\n]) ?(?!""(?:[${mark}\\r\\n]|$))${QUOTED}(?:"|$)`, 'g'), '$1\0')
    .split(/\r\n|\r|\n/)
    .filter((line) => line !== '')

/** Splits a record into its cells. Like DuckDB, ignores one space before a quoted cell and all spaces after it. */
export function splitRecord(text: string, delimiter: string): string[] {
  const fields: string[] = []
  let rest = text
  for (;;) {
    const whole = QUOTED_CELL.exec(rest)?.[0]
    const field = whole ?? rest.slice(0, indexOrEnd(rest, delimiter))
    fields.push(whole ? whole.trim().slice(1, -1).replaceAll('""', '"') : field)
    rest = rest.slice(field.length)
    if (rest === '') return fields
    if (!rest.startsWith(delimiter)) throw refusedLine(1, `text after the closing quote of ${quoted(field)}`)
    rest = rest.slice(1)
  }
}

const QUOTED_CELL = new RegExp(`^ ?${QUOTED}" *`)

const indexOrEnd = (text: string, found: string): number =>
  text.includes(found) ? text.indexOf(found) : text.length

const CLOSING = new RegExp(`^[^"]*(?:""[^"]*)*"(?!")`)

/** Returns whether a quoted cell is still open after a line; `isOpen` says whether one was open before it. */
export function isOpenAfter(line: string, isOpen: boolean, delimiter: string): boolean {
  const closing = isOpen ? CLOSING.exec(line) : undefined
  if (closing === null) return true
  // A quote right after a closed cell does not open another one.
  const rest = closing ? `x${line.slice(closing[0].length)}` : line
  const cells = rest.matchAll(new RegExp(`(?:^|[${delimiter}]) ?${QUOTED}("?)`, 'g'))
  return [...cells].some(([, end]) => end === '')
}

/** The scan's position in a field: before it, after one space, in it, in its quotes, after them, in trailing spaces. */
type State = 'start' | 'blank' | 'plain' | 'quoted' | 'closed' | 'after'

/**
 * Reads a rejected file again, line by line, and throws an error for the first faulty record. If there is none, throws
 * an error with `cause`, the first reader's error.
 */
export async function nameFirstBadRecord(path: string, dialect: CsvDialect, cause: unknown): Promise<never> {
  const record = new OpenRecord(dialect)
  let ending: string | undefined
  for await (const { line, bytes } of readLines(path)) {
    const text = decodeLine(bytes)
    if (text === undefined) throw refusedLine(line, 'not valid UTF-8')
    const itsEnding = text.endsWith('\r') ? 'CRLF' : 'LF'
    const bare = itsEnding === 'CRLF' ? text.slice(0, -1) : text
    if (line <= dialect.skippedLines) continue
    record.take(line, line === 1 ? bare.replace(/^\ufeff/, '') : bare)
    if (record.isOpen) continue
    ending ??= itsEnding
    if (ending !== itsEnding) {
      throw refusedLine(line, `ends in ${itsEnding}, but the lines before it end in ${ending}`)
    }
  }
  record.end()
  throw new DatasetRefused(`the file is not CSV: ${faultOfFile(cause)}`, { cause })
}

/** A record whose lines are still arriving; a quoted field may contain newlines. */
class OpenRecord {
  readonly #expected: number
  readonly #delimiter: string
  #state: State = 'start'
  #line = 1
  #fields = 1
  #size = 0

  constructor({ delimiter, header }: Pick<CsvDialect, 'delimiter' | 'header'>) {
    this.#expected = header.length
    this.#delimiter = delimiter
  }

  get isOpen(): boolean {
    return this.#state === 'quoted'
  }

  take(line: number, text: string): void {
    if (!this.isOpen) {
      // Blank lines are not records.
      if (text === '') return
      this.#line = line
      this.#fields = 1
      this.#state = 'start'
      this.#size = 0
    }
    this.#size += text.length
    if (this.#size > MAX_ROW_BYTES) throw tooLong(this.#line)
    for (const character of text) this.#state = this.#after(character)
    if (!this.isOpen && !hasFields(text, this.#fields, this.#expected, this.#delimiter)) {
      throw refusedLine(this.#line, `${this.#fields} fields where the header has ${this.#expected}`)
    }
  }

  end(): void {
    if (this.isOpen) throw refusedLine(this.#line, 'a quote is opened and never closed')
  }

  #after(character: string): State {
    if (this.#state === 'quoted') return character === '"' ? 'closed' : 'quoted'
    if (character === this.#delimiter) {
      this.#fields += 1
      return 'start'
    }
    if (character === '\r') throw refusedLine(this.#line, 'a carriage return without a newline')
    const isUnquoted = this.#state === 'plain' || this.#state === 'blank'
    if (character === ' ' && !isUnquoted) return this.#state === 'start' ? 'blank' : 'after'
    if (character === '"' && this.#state !== 'plain' && this.#state !== 'after') return 'quoted'
    if (this.#state === 'closed' || this.#state === 'after')
      throw refusedLine(this.#line, 'text after the closing quote of a field')
    return 'plain'
  }
}
