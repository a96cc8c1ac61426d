type Cell = string | number | boolean | null | undefined

/** Control characters except tab and line feed. Text from the platform must not control the terminal. */
// oxlint-disable-next-line no-control-regex -- the expression looks for control characters
const CONTROL = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g

/** Removes control characters from a string. */
export const plain = (text: string): string => text.replaceAll(CONTROL, '')

const show = (cell: Cell): string =>
  cell === null || cell === undefined || cell === '' ? '-' : plain(String(cell)).replaceAll(/\s+/g, ' ')

/** Formats rows under headings, with columns as wide as their content. */
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

/** Prints a line to standard output. */
export const printLine = (words: string): void => console.log(plain(words))

/** Prints a line that isn't part of the result, to standard error. */
export const printStatus = (words: string): void => console.error(plain(words))

/** Returns a value as JSON, and escapes the control characters that JSON allows unescaped. */
export const inJson = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, null, indent) ?? 'null').replaceAll(
    /[\u007F-\u009F]/g,
    (char) => `\\u00${char.charCodeAt(0).toString(16)}`,
  )

/** Prints the response as JSON with `--json`, else the text. */
export function print({ json }: { json: boolean }, answer: unknown, words: string): void {
  printLine(json ? inJson(answer, 2) : words)
}
