import type { JsonSchema } from '../types.ts'
import type { Cell, Row, RowSchema } from './rows.ts'

/** Returns the rows of a table whose first line names the columns. Omits columns that the model doesn't accept. */
export function rowsOfTable(text: string, { columns, required, most }: RowSchema): Row[] {
  const [head = [], ...lines] = cellsOf(text.replace(/^\uFEFF/, ''))
  const missing = required.filter((name) => !head.includes(name))
  if (missing.length > 0)
    throw new Error(`The first line must name the columns; it lacks ${missing.join(', ')}.`)
  if (lines.length === 0) throw new Error('There are no rows below the header.')
  if (lines.length > most)
    throw new Error(`These are ${lines.length} rows; the model accepts at most ${most} at once.`)
  const taken = columns.filter(([name]) => head.includes(name))
  return lines.map((cells) =>
    Object.fromEntries(
      taken.map(([name, schema]) => [name, valueOf(cells[head.indexOf(name)] ?? '', schema)]),
    ),
  )
}

/** Splits a table at tabs or semicolons if its first line has one, else at commas. Skips blank lines. */
function cellsOf(text: string): string[][] {
  const [first = ''] = text.split('\n', 1)
  const mark = ['\t', ';'].find((each) => first.includes(each)) ?? ','
  const cell = new RegExp(`(?:"([^"]*(?:""[^"]*)*)"|(?!")([^${mark}\\r\\n]*))(${mark}|\\r?\\n|$)`, 'y')
  const lines: string[][] = [[]]
  while (cell.lastIndex < text.length) {
    const found = cell.exec(text)
    if (!found) throw new Error(`Line ${lines.length} has a quotation mark that is never closed.`)
    const [, quoted, plain = '', end] = found
    lines.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain.trim())
    if (end !== mark) lines.push([])
  }
  return lines.filter((cells) => cells.some((each) => each !== ''))
}

/**
 * Converts a cell to its column's type. Returns the text itself if it doesn't fit; the form's validation then reports
 * it.
 */
function valueOf(cell: string, { type }: JsonSchema): Cell {
  const types = [type].flat()
  if (cell === '') return undefined
  if (types.includes('boolean'))
    return (
      new Map([
        ['true', true],
        ['false', false],
      ]).get(cell.toLowerCase()) ?? cell
    )
  const isNumber = types.includes('number') || types.includes('integer')
  return isNumber && !Number.isNaN(Number(cell)) ? Number(cell) : cell
}
