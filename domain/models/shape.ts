/** A model's dimensions, from its config.json. */
export interface ModelShape {
  layers: number
  kvHeads: number
  headDim: number
  /** The longest context, in tokens. */
  context: number
  /** The number of parameters, computed from the layers; null when the config lacks a value. */
  params: number | null
}

const MB = 1024 * 1024
const BYTES_PER_VALUE = 2
/** The number of cached tokens that a server is expected to have memory for. */
const CACHED_TOKENS = 8_192

/** Reads the shape of a language model; null for any other file. */
export function readModelShape(config: unknown): ModelShape | null {
  if (typeof config !== 'object' || config === null) return null
  const outer = config as Record<string, unknown>
  const inner = outer['text_config']
  const all = { ...outer, ...(typeof inner === 'object' && inner !== null ? inner : {}) } as Record<
    string,
    unknown
  >
  const number = (...names: string[]): number | undefined =>
    names
      .map((name) => all[name])
      .find((value): value is number => Number.isSafeInteger(value) && Number(value) > 0)
  const layers = number('num_hidden_layers', 'n_layer', 'num_layers')
  const heads = attentionHeads(outer)
  const hidden = number('hidden_size', 'n_embd', 'd_model')
  if (layers === undefined || heads === undefined || hidden === undefined) return null
  const headDim = number('head_dim') ?? Math.floor(hidden / heads)
  const kvHeads = number('num_key_value_heads') ?? heads
  const inter = number('intermediate_size', 'n_inner') ?? 4 * hidden
  const vocab = number('vocab_size')
  const attention = hidden * headDim * (2 * heads + 2 * kvHeads)
  const params =
    vocab === undefined
      ? null
      : layers * (attention + 3 * hidden * inter) +
        vocab * hidden * (all['tie_word_embeddings'] === true ? 1 : 2)
  return {
    layers,
    kvHeads,
    headDim,
    context: number('max_position_embeddings', 'n_positions', 'max_seq_len') ?? 2048,
    params,
  }
}

/** Returns the number of attention heads in a config.json; undefined if it names none. */
export function attentionHeads(config: Record<string, unknown>): number | undefined {
  const inner = config['text_config']
  const all = { ...config, ...(typeof inner === 'object' && inner !== null ? inner : {}) } as Record<
    string,
    unknown
  >
  const heads = [all['num_attention_heads'], all['n_head']].find((value) => Number.isSafeInteger(value))
  return typeof heads === 'number' && heads > 0 ? heads : undefined
}

/** Memory of a server's key-value cache. */
export function kvCacheMb({ layers, kvHeads, headDim, context }: ModelShape): number {
  const tokens = Math.min(context, CACHED_TOKENS)
  return Math.ceil((2 * layers * kvHeads * headDim * tokens * BYTES_PER_VALUE) / MB)
}
