import { type CsvDialect, nameFirstBadRecord, splitRecord } from './csv-scan.ts'
import { ColumnTyper } from './csv-values.ts'
import { decodeLine, readLines } from './lines.ts'
import { MAX_ROW_BYTES, type ColumnType } from './profile.ts'

/** The rows of a CSV file, and the type of each of its columns. */
export interface CsvContent {
  rows: number
  types: ColumnType[]
}

/** Reads a file of many columns once, whatever their number; a faulty record is named as for every CSV file. */
export async function readWide(path: string, dialect: CsvDialect): Promise<CsvContent> {
  const { delimiter, header, skippedLines } = dialect
  const columns = header.map(() => new ColumnTyper())
  const fault = (cause: unknown) => nameFirstBadRecord(path, dialect, cause)
  let [rows, isHeader] = [0, true]
  const open = new OpenRecord()
  for await (const { line, bytes } of readLines(path)) {
    if (line <= skippedLines) continue
    const text = decodeLine(bytes)
    if (text === undefined) return fault(new Error('not UTF-8'))
    const whole = open.with(text.replace(/\r$/, ''))
    if (open.bytes > MAX_ROW_BYTES) return fault(new Error('a record is too long'))
    if (whole === undefined) continue
    if (isHeader) {
      isHeader = false
      continue
    }
    if (whole === '') continue
    const cells = fieldsOf(whole, delimiter)
    if (cells?.length !== columns.length) return fault(new Error(`record ${rows + 1} has other columns`))
    rows += 1
    for (const [i, cell] of cells.entries()) columns[i]?.add(cell)
  }
  if (open.bytes > 0) return fault(new Error('a quote is never closed'))
  return { rows, types: columns.map(({ type }) => type) }
}

/** The lines of a record whose quotes are not all closed yet. */
class OpenRecord {
  #lines: string[] = []
  bytes = 0

  /** Returns the whole record with this line, or `undefined` while a quote is open. */
  with(line: string): string | undefined {
    let isOpen = this.#lines.length > 0
    for (let at = line.indexOf('"'); at !== -1; at = line.indexOf('"', at + 1)) isOpen = !isOpen
    if (!isOpen && this.#lines.length === 0) return line
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
