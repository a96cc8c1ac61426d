/** The number of jsonl rows read to find the columns; all other formats list their columns themselves. */
export const SNIFFED_ROWS = 20_480

interface Dataset<C> {
  storage_format: string
  num_samples: number | null
  columns: C
}

/** Returns the columns when they are known to be complete; null when later rows of a jsonl file may have more. */
export const completeColumns = <C>({ storage_format, num_samples, columns }: Dataset<C>): C | null =>
  storage_format === 'jsonl' && (num_samples ?? 0) > SNIFFED_ROWS ? null : columns

/**
 * Returns the columns, with type `any` for string columns whose values might all be numbers, because a CSV reader turns
 * those into numbers.
 */
export const openTypes = <C extends { type: string }>(columns: readonly C[], storage_format: string): C[] =>
  columns.map((column) =>
    column.type === 'string' && storage_format !== 'csv' ? { ...column, type: 'any' } : column,
  )

/** The maximum number of names that a message lists, and the maximum length of each. */
const MAX_LISTED = 20
const MAX_LISTED_CHARS = 60

/** Lists the first column names for a message, each truncated, and the number of the rest; `none` for an empty list. */
export function listedNames(names: readonly string[]): string {
  if (names.length === 0) return 'none'
  const first = names.slice(0, MAX_LISTED).map(shortName).join(', ')
  return names.length > MAX_LISTED ? `${first}, and ${names.length - MAX_LISTED} more` : first
}

/** Truncates a column name for a message. */
export const shortName = (name: string): string =>
  name.length > MAX_LISTED_CHARS ? `${name.slice(0, MAX_LISTED_CHARS)}…` : name
