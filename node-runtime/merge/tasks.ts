/** A tensor among the inputs, as a worker needs it. */
export interface Input {
  path: string
  /** First byte in the file. */
  offset: number
  dtype: string
}

/** A tensor of the output: where its first element goes. */
export interface Output {
  path: string
  offset: number
}

/** Part of a tensor, in elements. */
export interface Slice {
  first: number
  count: number
}

/** What ties takes from one model. */
export interface TrimmedInput {
  input: Input
  weight: number
  /** Magnitudes above it are kept, of those equal to it the first `quota` of this slice. */
  threshold: number
  quota: number
}

/** What dare takes from one model. */
export interface DroppedInput {
  input: Input
  /** Weight over density. */
  scale: number
  key: number
  salt: number
}

/** One pair of LoRA factors: `left` is rows x rank and `right` rank x columns of what they add to the tensor. */
export interface Factors {
  left: Input
  right: Input
  /** `left` lies as rank x rows, `right` as columns x rank. */
  isTransposed: boolean
  rank: number
  scale: number
}

/** What a worker is asked to do with one slice of one tensor. */
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
      /** The length each row of the sum is given; as it comes when absent. */
      magnitude?: Input
      out: Output
    } & Slice)
  | ({ kind: 'copy'; input: Input; out: Output } & Slice)

/** Which kind of answer a task has. */
export type Answer<T extends Task = Task> = T extends { kind: 'dots' }
  ? { sums: Float64Array }
  : T extends { kind: 'magnitudes' }
    ? { counted: true }
    : { isFinite: boolean }

/** Elements in one sum of `dots`: sums depend on it, so it never changes with chunks or threads. */
export const BLOCK = 16_384
/** Magnitudes of a bfloat16. */
export const MAGNITUDES = 32_768
