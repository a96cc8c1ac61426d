/** The formats of datasets, as named in the contract. */
export type DatasetFormat = 'csv' | 'jsonl' | 'parquet' | 'hf_dataset'

/** One column, with a type that means the same in every format. */
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
  /** Values of several kinds, or no values at all. */
  | 'any'

/** The content of a dataset, determined by reading all of it. */
export interface DatasetProfile {
  num_samples: number
  columns: DatasetColumn[]
  /** The memory that its rows need when decoded, with every value expanded. */
  decoded_bytes: number
}

/** A value counts as one machine word: its number, or a pointer to its text. */
export const VALUE_BYTES = 8

/** Returns the size in memory of rows whose text takes `textBytes` in total. */
export const decodedBytes = (rows: number, columns: number, textBytes: number): number =>
  Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(rows * columns * VALUE_BYTES + textBytes))

/** The maximum size of a row in bytes, which bounds the memory of every reader, ours and the trainers'. */
export const MAX_ROW_BYTES = 8 * 1024 * 1024

/** A file with more columns than this is not a table; its names are data themselves. */
export const MAX_COLUMNS = 10_000

/**
 * The maximum total size of all column names, written as JSON. Routes that read a dataset parse its names, so a limit
 * on their number alone would not bound the work.
 */
export const MAX_NAMES_BYTES = 1024 * 1024

/** Returns the bytes that a column name takes as JSON, which escapes control characters and quotes. */
export const bytesOfName = (name: string): number => Buffer.byteLength(JSON.stringify(name)) - 2

/** The file doesn't match its declared format; the message for its owner names the first faulty location. */
export class DatasetRefused extends Error {
  override readonly name = 'DatasetRefused'
}

/** Creates the error that rejects a file because of one of its lines, numbered from 1. */
export const refusedLine = (line: number, what: string): DatasetRefused =>
  new DatasetRefused(`line ${line}: ${what}`)

/** Truncates and quotes a file's content for a message. */
export function quoted(text: string, limit = 80): string {
  return JSON.stringify(text.length > limit ? `${text.slice(0, limit)}…` : text)
}
