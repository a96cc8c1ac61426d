import { type CsvDialect, hasFields, isOpenAfter, nameFirstBadRecord, splitRecord } from './csv-scan.ts'
import { ColumnTyper } from './csv-values.ts'
import { decodeLine, readLines } from './lines.ts'
import { MAX_ROW_BYTES, type ColumnType } from './profile.ts'

/** The rows of a CSV file, and the type of each of its columns. */
export interface CsvContent {
  rows: number
  types: ColumnType[]
}

/**
 * Reads a file in one pass, however many columns it has. Faulty records are reported like those of any other CSV file.
 */
export async function readWide(path: string, dialect: CsvDialect): Promise<CsvContent> {
  const columns = dialect.header.map(() => new ColumnTyper())
  let rows = 0
  for await (const cells of readCells(path, dialect)) {
    rows += 1
    for (const [i, cell] of cells.entries()) columns[i]?.add(cell)
  }
  return { rows, types: columns.map(({ type }) => type) }
}

/** Yields the cells of each row. */
export async function* readCells(path: string, dialect: CsvDialect): AsyncIterable<string[]> {
  const { delimiter, header, skippedLines } = dialect
  const fault = (cause: unknown) => nameFirstBadRecord(path, dialect, cause)
  let [rows, isHeader] = [0, true]
  const open = new OpenRecord(delimiter)
  for await (const { line, bytes } of readLines(path)) {
    if (line <= skippedLines) continue
    const text = decodeLine(bytes)
    if (text === undefined) return fault(new Error('not UTF-8'))
    const whole = open.with((line === 1 ? text.replace(/^\ufeff/, '') : text).replace(/\r$/, ''))
    if (open.bytes > MAX_ROW_BYTES) return fault(new Error('a record is too long'))
    if (whole === undefined) continue
    if (isHeader) {
      isHeader = false
      continue
    }
    if (whole === '' && header.length > 1) continue
    const cells = fieldsOf(whole, delimiter)
    if (!cells || !hasFields(whole, cells.length, header.length, delimiter))
      return fault(new Error(`record ${rows + 1} has a different number of columns`))
    rows += 1
    yield cells.slice(0, header.length)
  }
  if (open.bytes > 0) return fault(new Error('a quote is never closed'))
}

/** The lines of a record with a quote that is still open. */
class OpenRecord {
  readonly #delimiter: string
  #lines: string[] = []
  bytes = 0

  constructor(delimiter: string) {
    this.#delimiter = delimiter
  }

  /** Returns the whole record including this line, or `undefined` while a quote is open. */
  with(line: string): string | undefined {
    const wasOpen = this.#lines.length > 0
    const isOpen = line.includes('"') ? isOpenAfter(line, wasOpen, this.#delimiter) : wasOpen
    if (!isOpen && !wasOpen) return line
    this.#lines.push(line)
    this.bytes += line.length + 1
    if (isOpen) return undefined
    const whole = this.#lines.join('\n')
    this.#lines = []
    this.bytes = 0
    return whole
  }
}

function fieldsOf(text: string, delimiter: string): string[] | undefined {
  if (!text.includes('"')) return text.split(delimiter)
  try {
    return splitRecord(text, delimiter)
  } catch {
    return undefined
  }
}
