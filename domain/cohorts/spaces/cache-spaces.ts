import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'
import type { GgufNumbers } from '../../hub/gguf.ts'

type Json = Readonly<Record<string, unknown>>

/** The types in which transformers stores weights, and therefore caches. */
const DTYPES: Readonly<Record<string, ModelSpace['dtype']>> = {
  float32: 'f32',
  float16: 'f16',
  bfloat16: 'bf16',
}
/** Layers whose cache is one tensor of keys and one of values per head. */
const PLAIN_LAYERS: readonly unknown[] = ['full_attention', 'sliding_attention']
/** Config fields of models whose layers share, compress or mix their caches. */
const UNLIKE = [
  'kv_lora_rank',
  'num_kv_shared_layers',
  'attn_layer_period',
  'mamba_d_state',
  'ssm_state_size',
]
const THETA = 10_000

/**
 * Returns the caches of a model served by transformers, from its `config.json`; empty when the config does not
 * determine them for certain.
 */
export function transformersCaches(config: Json, tokenizer_digest: string): ModelSpace[] {
  const { num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, hidden_size } = config
  const dtype = DTYPES[String(config['dtype'] ?? config['torch_dtype'])]
  const kinds = config['layer_types']
  const isPlain = !Array.isArray(kinds) || kinds.every((kind) => PLAIN_LAYERS.includes(kind))
  if (!dtype || !isPlain || UNLIKE.some((field) => config[field]) || config['quantization_config']) return []
  const heads = Number(num_attention_heads)
  return caches(
    {
      name: 'transformers',
      format: 'dynamic',
      layers: Number(num_hidden_layers),
      kv_heads: Number(num_key_value_heads ?? heads),
      head_dim: Number(head_dim ?? Number(hidden_size) / heads),
      rope: ropeOf(config),
    },
    { dtype, tokenizer_digest },
  )
}

function ropeOf(config: Json): string {
  const rope = (config['rope_parameters'] ?? config['rope_scaling'] ?? {}) as Json
  const theta = rope['rope_theta'] ?? config['rope_theta'] ?? THETA
  return ropeWords(rope['rope_type'] ?? rope['type'] ?? 'default', theta)
}

/** Returns the caches of a model served by llama.cpp, from its GGUF header, which also contains the tokenizer. */
export function llamaCaches({ architecture, numbers }: GgufNumbers, file_digest: string): ModelSpace[] {
  const of = (field: string) => numbers[`${architecture}.${field}`]
  const heads = of('attention.head_count') ?? Number.NaN
  return caches(
    {
      name: 'llamacpp',
      format: 'llama-state',
      layers: of('block_count') ?? Number.NaN,
      kv_heads: of('attention.head_count_kv') ?? heads,
      head_dim: of('attention.key_length') ?? (of('embedding_length') ?? Number.NaN) / heads,
      rope: ropeWords(architecture, of('rope.freq_base') ?? THETA),
    },
    { dtype: 'f16', tokenizer_digest: file_digest },
  )
}

const ropeWords = (kind: unknown, theta: unknown): string => `${String(kind)} ${String(theta)}`.slice(0, 200)

function caches(
  engine: NonNullable<ModelSpace['engine']>,
  rest: Pick<ModelSpace, 'dtype' | 'tokenizer_digest'>,
): ModelSpace[] {
  const sizes = [engine.layers, engine.kv_heads, engine.head_dim]
  if (!sizes.every((size) => Number.isInteger(size) && size > 0)) return []
  return [{ name: 'kv', role: 'both', kind: 'kv_cache', ...rest, engine }]
}
