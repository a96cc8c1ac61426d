/** A tensor of an input file, as a worker reads it. */
export interface Input {
  path: string
  /** The offset of the first byte in the file. */
  offset: number
  dtype: string
}

/** The location in the output file of a tensor's first element. */
export interface Output {
  path: string
  offset: number
}

/** Part of a tensor, in elements. */
export interface Slice {
  first: number
  count: number
}

/** The elements of one model that ties retains. */
export interface TrimmedInput {
  input: Input
  weight: number
  /** Magnitudes above the threshold are retained, as are the first `quota` in this slice that equal it. */
  threshold: number
  quota: number
}

/** The elements of one model that dare retains. */
export interface DroppedInput {
  input: Input
  /** Weight divided by density. */
  scale: number
  key: number
  salt: number
}

/** One pair of LoRA factors of an update: `left` is rows x rank and `right` is rank x columns. */
export interface Factors {
  left: Input
  right: Input
  /** True when `left` is stored as rank x rows, and `right` as columns x rank. */
  isTransposed: boolean
  rank: number
  scale: number
}

/** A worker's task on one slice of one tensor. */
export type Task =
  | ({ kind: 'dots'; a: Input; b: Input } & Slice)
  | ({ kind: 'combine'; a: Input; b: Input; p: number; q: number; out: Output } & Slice)
  | ({ kind: 'magnitudes'; base: Input; inputs: Input[]; tables: SharedArrayBuffer } & Slice)
  | ({ kind: 'ties'; base: Input; inputs: TrimmedInput[]; out: Output } & Slice)
  | ({ kind: 'dare'; base: Input; inputs: DroppedInput[]; limit: number; out: Output } & Slice)
  | ({
      kind: 'adapter'
      base: Input
      rows: number
      cols: number
      factors: Factors[]
      /** The norm of each row of the sum; if absent, rows are not scaled. */
      magnitude?: Input
      out: Output
    } & Slice)
  | ({ kind: 'copy'; input: Input; out: Output } & Slice)

/** The result type of a task. */
export type Answer<T extends Task = Task> = T extends { kind: 'dots' }
  ? { sums: Float64Array }
  : T extends { kind: 'magnitudes' }
    ? { counted: true }
    : { isFinite: boolean }

/** The number of elements in one sum of `dots`. Results depend on it, so it never varies with chunks or threads. */
export const BLOCK = 16_384
/** The number of magnitudes that a bfloat16 can have. */
export const MAGNITUDES = 32_768
