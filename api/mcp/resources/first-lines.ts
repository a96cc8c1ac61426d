/**
 * Returns the first records of a text, one per line. In CSV, a newline within a quoted field doesn't end the record,
 * and a quote only opens a field at its start. If the text was cut, drops the last record unless it is the only one.
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

/** Includes a quote right after the quote that closed a field: that is an escaped quote, which reopens the field. */
const isFieldStart = (text: string, at: number): boolean => at === 0 || /[,;\t\n\r"]/.test(text[at - 1] ?? '')
