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

/** Prints a line for people. */
export const say = (words: string): void => console.log(plain(words))

/** Prints a line beside the result, to standard error. */
export const remark = (words: string): void => console.error(plain(words))

/** Returns a value as JSON, with the control characters escaped that JSON lets stand. */
export const inJson = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, null, indent) ?? 'null').replaceAll(
    /[\u007F-\u009F]/g,
    (char) => `\\u00${char.charCodeAt(0).toString(16)}`,
  )

/** Prints the response as JSON for scripts, and the text for people. */
export function print({ json }: { json: boolean }, answer: unknown, words: string): void {
  say(json ? inJson(answer, 2) : words)
}
