import type { GgufNumbers } from '../hub/gguf.ts'

/** The figures that the memory of a model's context follows from. */
export interface ContextShape {
  /** The model's own context length in tokens. */
  readonly length: number
  /** The bytes of one token in a 16-bit KV cache. For sliding windows and recurrent layers, this is an upper bound. */
  readonly bytesPerToken: number
}

const MB = 1024 * 1024
const BYTES_PER_VALUE = 2
/** llama.cpp masks a batch of 512 tokens with 16 bits for each token of the context. */
const MASK_BYTES_PER_TOKEN = 1_024

/** Reads the shape of a GGUF's context from its header; undefined if the header lacks it. */
export function readContextShape({ architecture, numbers, lists }: GgufNumbers): ContextShape | undefined {
  const number = (name: string): number | undefined => numbers[`${architecture}.${name}`]
  const length = number('context_length')
  const layers = number('block_count')
  if (length === undefined || layers === undefined) return undefined
  const list = (name: string): readonly number[] => lists[`${architecture}.${name}`] ?? []
  const heads = number('attention.head_count') ?? Math.max(0, ...list('attention.head_count'))
  const width = heads > 0 ? (number('embedding_length') ?? 0) / heads : 0
  const values = (number('attention.key_length') ?? width) + (number('attention.value_length') ?? width)
  const perLayer = list('attention.head_count_kv')
  const kvHeads =
    perLayer.length > 0
      ? perLayer.reduce((sum, count) => sum + count, 0)
      : layers * (number('attention.head_count_kv') ?? heads)
  return { length, bytesPerToken: Math.ceil(kvHeads * values * BYTES_PER_VALUE) }
}

/** Returns the memory in MB for contexts of this many tokens each. */
export const contextMb = ({ bytesPerToken }: ContextShape, tokens: number, contexts = 1): number =>
  Math.ceil((tokens * contexts * (bytesPerToken + MASK_BYTES_PER_TOKEN)) / MB)

/** llama.cpp servers offer at least this many tokens, which the reservation for the weights covers. */
const MIN_TOKENS = 4_096

/** Returns how many tokens of all contexts together fit into this memory, at most as many as `contexts` full ones have. */
export const tokensIn = ({ length, bytesPerToken }: ContextShape, mb: number, contexts: number): number =>
  Math.max(
    Math.min(length, MIN_TOKENS),
    Math.min(length * contexts, Math.floor((mb * MB) / (bytesPerToken + MASK_BYTES_PER_TOKEN))),
  )
