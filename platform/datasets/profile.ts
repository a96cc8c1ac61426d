/** The formats a dataset may have; the contract's vocabulary. */
export type DatasetFormat = 'csv' | 'jsonl' | 'parquet' | 'hf_dataset'

/** One column, by a type that means the same in every format. */
export interface DatasetColumn {
  name: string
  type: ColumnType
}

export type ColumnType =
  | 'integer'
  | 'number'
  | 'boolean'
  | 'string'
  | 'date'
  | 'timestamp'
  | 'binary'
  | 'list'
  | 'object'
  /** Values of several kinds, or none at all. */
  | 'any'

/** What a dataset holds, found by reading all of it. */
export interface DatasetProfile {
  num_samples: number
  columns: DatasetColumn[]
  /** What its rows take in memory, unpacked and with every value written out. */
  decoded_bytes: number
}

/** A value takes a word: its number, or where its text is. */
export const VALUE_BYTES = 8

/** The size in memory of rows whose texts take so many bytes together. */
export const decodedBytes = (rows: number, columns: number, textBytes: number): number =>
  Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(rows * columns * VALUE_BYTES + textBytes))

/** A row may have this many bytes: it bounds the memory of every reader, ours and the trainers'. */
export const MAX_ROW_BYTES = 8 * 1024 * 1024

/** More names than this are no table any more but data of their own. */
export const MAX_COLUMNS = 10_000

/** The file is not what it was declared to be; the message names the first place, for whoever uploaded it. */
export class DatasetRefused extends Error {
  override readonly name = 'DatasetRefused'
}

/** Refuses a file for one of its lines, counted from one. */
export const refusedLine = (line: number, what: string): DatasetRefused =>
  new DatasetRefused(`line ${line}: ${what}`)

/** Cuts what a file contains down to something that may stand in a message. */
export function quoted(text: string, limit = 80): string {
  return JSON.stringify(text.length > limit ? `${text.slice(0, limit)}…` : text)
}
