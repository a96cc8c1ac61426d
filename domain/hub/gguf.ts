/** The facts in a GGUF header that decide what the weights can be used for. */
export interface GgufHead {
  architecture: string
  /** How token vectors are pooled into one for the text; null when the file does not specify it. */
  pooling: number | null
}

/** The numbers in a GGUF header, by key. */
export interface GgufNumbers {
  architecture: string
  numbers: Readonly<Record<string, number>>
  /** The lists of integers with one value per layer. */
  lists: Readonly<Record<string, readonly number[]>>
}

/** Values of `pooling_type`: no pooling, and the ranking head of a reranker. All others pool a text into one vector. */
const POOLING_NONE = 0
const POOLING_RANK = 4

/** The metadata that we read precedes the vocabulary and is within this many bytes of the start of a file. */
export const GGUF_HEAD_BYTES = 64 * 1024

const MAX_LAYERS = 1_024

const U32 = 4
const I32 = 5
const F32 = 6
const STRING = 8
const ARRAY = 9
/** Bytes per value, by type; strings and arrays have no fixed size. */
const SIZES: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
}

/** Reads the numbers that precede a GGUF's vocabulary from its first bytes; undefined when they aren't from a GGUF. */
export function readGgufNumbers(bytes: Uint8Array): GgufNumbers | undefined {
  const numbers: Record<string, number> = {}
  const lists: Record<string, readonly number[]> = {}
  let architecture: string | undefined
  forEachKey(bytes, (key, type, reader) => {
    if (key === 'general.architecture' && type === STRING) architecture = reader.string()
    else if (type === U32) numbers[key] = reader.u32()
    else if (type === F32) numbers[key] = reader.f32()
    else if (type === ARRAY) {
      const list = reader.list()
      if (list) lists[key] = list
    } else reader.skipValue(type)
  })
  return architecture === undefined ? undefined : { architecture, numbers, lists }
}

/** Reads a GGUF's header from its first bytes; undefined when they aren't from a GGUF or name no architecture. */
export function readGgufHead(bytes: Uint8Array): GgufHead | undefined {
  let architecture: string | undefined
  let pooling: number | null = null
  forEachKey(bytes, (key, type, reader) => {
    if (key === 'general.architecture' && type === STRING) architecture = reader.string()
    else if (key === `${architecture}.pooling_type` && type === U32) pooling = reader.u32()
    else reader.skipValue(type)
  })
  return architecture === undefined ? undefined : { architecture, pooling }
}

/** Calls `read` for every key of a header; `read` must read or skip the value. */
function forEachKey(bytes: Uint8Array, read: (key: string, type: number, reader: GgufReader) => void): void {
  const reader = new GgufReader(bytes)
  try {
    if (reader.text(4) !== 'GGUF') return
    reader.skip(12)
    for (let remaining = reader.u64(); remaining > 0; remaining--) read(reader.string(), reader.u32(), reader)
  } catch (err) {
    // The bytes end within the vocabulary, which comes after every key that we need.
    if (!(err instanceof RangeError)) throw err
  }
}

/** Text tasks that a GGUF can serve without generating text. */
type TextTask = 'embeddings' | 'rerank'

export const isTextTask = (task: string | undefined): task is TextTask =>
  task === 'embeddings' || task === 'rerank'

/** Returns why a GGUF cannot serve a text task; undefined when it can. */
export function ggufProblem(task: TextTask, { architecture, pooling }: GgufHead): string | undefined {
  const name = `The GGUF (${architecture})`
  if (task === 'rerank')
    return pooling === POOLING_RANK ? undefined : `${name} has no ranking head, which rerank needs.`
  if (pooling === POOLING_RANK) return `${name} is a reranker and produces no embeddings.`
  return pooling === null || pooling === POOLING_NONE
    ? `${name} declares no pooling of its tokens and produces no embeddings.`
    : undefined
}

/** GGUF architectures that generate no text; `clip` is the projector of a vision model. */
const ENCODER = /bert|embedding|t5encoder|^clip$/

/** Returns why a GGUF cannot serve a text generation task; undefined when it can. */
export const encoderGgufProblem = (task: string, architecture: string | null): string | undefined =>
  architecture !== null && ENCODER.test(architecture)
    ? `The GGUF (${architecture}) is an encoder, but ${task} needs a model that generates text.`
    : undefined

/** Reads little-endian values of a GGUF; throws `RangeError` at the end of the bytes. */
export class GgufReader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  /** The number of bytes read so far. */
  get at(): number {
    return this.#at
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true)
  }

  u64(): number {
    return Number(this.#view.getBigUint64(this.#take(8), true))
  }

  f32(): number {
    return this.#view.getFloat32(this.#take(4), true)
  }

  string(): string {
    return this.text(this.u64())
  }

  text(length: number): string {
    const start = this.#take(length)
    return new TextDecoder().decode(this.#bytes.subarray(start, start + length))
  }

  skip(length: number): void {
    this.#take(length)
  }

  skipValue(type: number): void {
    if (type === STRING) this.skip(this.u64())
    else if (type === ARRAY) this.#skipList(this.u32(), this.u64())
    else this.skip(SIZES[type] ?? Infinity)
  }

  /** Reads a list of integers; skips a list of other values or one that is too long to be about layers. */
  list(): number[] | undefined {
    const [inner, length] = [this.u32(), this.u64()]
    if ((inner === U32 || inner === I32) && length <= MAX_LAYERS)
      return Array.from({ length }, () => this.u32())
    this.#skipList(inner, length)
    return undefined
  }

  #skipList(inner: number, length: number): void {
    const size = SIZES[inner]
    if (size !== undefined) this.skip(size * length)
    else for (let i = 0; i < length; i++) this.skipValue(inner)
  }

  #take(length: number): number {
    const start = this.#at
    if (start + length > this.#bytes.length) throw new RangeError('the bytes end here')
    this.#at += length
    return start
  }
}
