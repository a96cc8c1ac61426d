type Cell = string | number | boolean | null | undefined

/** Control characters other than tab and line end: what the platform tells must not move the cursor of a terminal. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROL = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g

/** Returns a text without control characters. */
export const plain = (text: string): string => text.replaceAll(CONTROL, '')

const show = (cell: Cell): string =>
  cell === null || cell === undefined || cell === '' ? '-' : plain(String(cell)).replaceAll(/\s+/g, ' ')

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
export function print({ json }: { json: boolean }, answer: unknown, words: string): void {
  console.log(json ? JSON.stringify(answer, null, 2) : plain(words))
}
