/**
 * Returns the first records of a text, one a line. In CSV a newline within a quoted field ends no record, and a quote
 * opens a field only at its start. Of a text that was cut, the last record is left out unless it is the only one.
 */
export function firstLines(
  text: string,
  most: number,
  { format, isCut }: { format: string; isCut: boolean },
): string {
  const hasQuotes = format === 'csv'
  let inQuotes = false
  let count = 0
  let end = 0
  for (let at = 0; at < text.length && count < most; at++) {
    const sign = text[at]
    if (hasQuotes && sign === '"' && (inQuotes || isFieldStart(text, at))) inQuotes = !inQuotes
    else if (sign === '\n' && !inQuotes) {
      count++
      end = at + 1
    }
  }
  const isWhole = count === most || (isCut && end > 0)
  return isWhole ? text.slice(0, end) : text
}

/** A quote after a quote that has just closed a field is an escaped one, and opens it again. */
const isFieldStart = (text: string, at: number): boolean => at === 0 || /[,;\t\n\r"]/.test(text[at - 1] ?? '')
