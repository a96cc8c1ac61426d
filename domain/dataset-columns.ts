/** The number of rows of a jsonl file that are read for its columns; every other format lists all its columns itself. */
export const SNIFFED_ROWS = 20_480

interface Dataset<C> {
  storage_format: string
  num_samples: number | null
  columns: C
}

/** Returns the columns when they are known to be complete; null when a later row of a jsonl file may have more. */
export const completeColumns = <C>({ storage_format, num_samples, columns }: Dataset<C>): C | null =>
  storage_format === 'jsonl' && (num_samples ?? 0) > SNIFFED_ROWS ? null : columns
