import { faultOfFile } from './duckdb.ts'
import { decodeLine, readLines, tooLong } from './lines.ts'
import { DatasetRefused, MAX_COLUMNS, MAX_ROW_BYTES, quoted, refusedLine } from './profile.ts'

/** The delimiter of a file, and its columns. */
export interface CsvDialect {
  delimiter: string
  /** The names of all columns; those without one are named as pandas names them. */
  header: string[]
  /** The positions of columns without a name of their own. */
  unnamed: number[]
  /** Lines before the header: Excel writes one with the delimiter, and reads it. */
  skippedLines: 0 | 1
}

const QUOTE = 0x22
const NEWLINE = 0x0a
const RETURN = 0x0d
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
  const end = endOfRecord(start, from)
  if (end >= HEADER_BYTES)
    throw refusedLine(1, 'the names of the columns take more than 1 MB together, the limit')
  const bytes = start.subarray(from, end)
  const text = decodeLine(bytes)
  if (text === undefined) throw refusedLine(1, 'not valid UTF-8')
  if (text.includes('\0')) throw refusedLine(1, 'holds the character NUL (is it UTF-16?)')
  if (text.trim() === '') throw refusedLine(1, 'blank where the names of the columns should be')

  const delimiter = given?.[1] ?? separatorOf(text)
  const written = splitRecord(text, delimiter)
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
  return { delimiter, header, unnamed, skippedLines: given ? 1 : 0 }
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

function endOfRecord(bytes: Buffer, from: number): number {
  let inQuotes = false
  for (let i = from; i < bytes.length; i++) {
    if (bytes[i] === QUOTE) inQuotes = !inQuotes
    else if (!inQuotes && (bytes[i] === NEWLINE || bytes[i] === RETURN)) return i
  }
  if (inQuotes && bytes.length < HEADER_BYTES) throw refusedLine(1, 'a quoted column name is never closed')
  return bytes.length
}

const outsideQuotes = (text: string) => text.replaceAll(/"(?:[^"]|"")*"/g, '')

/** Returns a comma if there is one, as the trainers do; otherwise the most frequent of the other delimiters. */
function separatorOf(text: string): string {
  const bare = outsideQuotes(text)
  const count = (mark: string) => bare.split(mark).length
  const [most = ','] = DELIMITERS.slice(1).toSorted((a, b) => count(b) - count(a))
  return bare.includes(',') || count(most) === 1 ? ',' : most
}

export function splitRecord(text: string, delimiter: string): string[] {
  const fields: string[] = []
  let rest = text
  for (;;) {
    const field = /^"(?:[^"]|"")*"/.exec(rest)?.[0] ?? rest.slice(0, indexOrEnd(rest, delimiter))
    fields.push(field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field)
    rest = rest.slice(field.length)
    if (rest === '') return fields
    if (!rest.startsWith(delimiter)) throw refusedLine(1, `text after the closing quote of ${quoted(field)}`)
    rest = rest.slice(1)
  }
}

const indexOrEnd = (text: string, found: string): number =>
  text.includes(found) ? text.indexOf(found) : text.length

/** The state of a scan within a field: before it, in it, inside its quotes, just after their end. */
type State = 'start' | 'plain' | 'quoted' | 'closed'

/**
 * Reads a refused file again, line by line, and throws for the first faulty record; when there is none, it throws
 * `cause`, the error of the first reader.
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
      throw refusedLine(line, `ends in ${itsEnding} while the lines before end in ${ending}`)
    }
  }
  record.end()
  throw new DatasetRefused(`the file is not CSV: ${faultOfFile(cause)}`, { cause })
}

/** One record as its lines arrive; a quoted field may contain newlines. */
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
    if (!this.isOpen && this.#fields !== this.#expected) {
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
    if (character === '"' && this.#state !== 'plain') return 'quoted'
    if (this.#state === 'closed') throw refusedLine(this.#line, 'text after the closing quote of a field')
    return 'plain'
  }
}
