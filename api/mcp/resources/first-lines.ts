/**
 * Returns the first records of a text, one a line; a newline within quotes ends none. Of a text that was cut, the last
 * record is left out unless it is the only one.
 */
export function firstLines(text: string, most: number, isCut: boolean): string {
  let inQuotes = false
  let count = 0
  let end = 0
  for (let at = 0; at < text.length && count < most; at++) {
    if (text[at] === '"') inQuotes = !inQuotes
    else if (text[at] === '\n' && !inQuotes) {
      count++
      end = at + 1
    }
  }
  const isWhole = count === most || (isCut && end > 0)
  return isWhole ? text.slice(0, end) : text
}
