/** Rows of a jsonl file that are looked at for its columns; every other format names all columns by itself. */
export const SNIFFED_ROWS = 20_480

interface Dataset<C> {
  storage_format: string
  num_samples: number | null
  columns: C
}

/** The columns, where they are certainly all; `null` where a later row of a jsonl file may have more. */
export const completeColumns = <C>({ storage_format, num_samples, columns }: Dataset<C>): C | null =>
  storage_format === 'jsonl' && (num_samples ?? 0) > SNIFFED_ROWS ? null : columns
