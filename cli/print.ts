import type { Context } from './context.ts'

type Cell = string | number | boolean | null | undefined

const show = (cell: Cell): string => (cell === null || cell === undefined || cell === '' ? '-' : String(cell))

/** Formats rows under headings, with each column as wide as necessary. */
export function table(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(show))]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Prints the response as JSON for scripts, and the text for people. */
export function print({ json }: Pick<Context, 'json'>, answer: unknown, words: string): void {
  console.log(json ? JSON.stringify(answer, null, 2) : words)
}
