import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { headerFor, type TensorSpec } from '../../../../node-runtime/merge/safetensors.ts'
import { randomNumbers, toBf16 } from './checkpoints.ts'

/** The number of distinct values before they repeat; odd, so that rows differ. */
const PATTERN = 1_048_583
const BF16_BYTES = 2

export interface LargeCheckpoint {
  seed: number
  hidden: number
  layers: number
  inner: number
  vocab: number
}

/** Returns the tensor names and shapes of a Llama with these sizes. */
export function llamaShapes({
  hidden,
  layers,
  inner,
  vocab,
}: Omit<LargeCheckpoint, 'seed'>): [string, number[]][] {
  const blocks = Array.from({ length: layers }, (_, layer): [string, number[]][] => {
    const at = `model.layers.${layer}`
    return [
      ...['q', 'k', 'v', 'o'].map((part): [string, number[]] => [
        `${at}.self_attn.${part}_proj.weight`,
        [hidden, hidden],
      ]),
      [`${at}.mlp.gate_proj.weight`, [inner, hidden]],
      [`${at}.mlp.up_proj.weight`, [inner, hidden]],
      [`${at}.mlp.down_proj.weight`, [hidden, inner]],
      [`${at}.input_layernorm.weight`, [hidden]],
      [`${at}.post_attention_layernorm.weight`, [hidden]],
    ]
  })
  return [
    ['model.embed_tokens.weight', [vocab, hidden]],
    ...blocks.flat(),
    ['model.norm.weight', [hidden]],
    ['lm_head.weight', [vocab, hidden]],
  ]
}

/**
 * Writes a bf16 model of any size about as fast as copying a file of that size. The weights of every seed are close to
 * those of seed 0.
 */
export function writeLargeCheckpoint(dir: string, { seed, ...size }: LargeCheckpoint): number {
  mkdirSync(dir, { recursive: true })
  const config = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: size.hidden,
    intermediate_size: size.inner,
    num_hidden_layers: size.layers,
    num_attention_heads: 16,
    num_key_value_heads: 16,
    vocab_size: size.vocab,
    tie_word_embeddings: false,
    torch_dtype: 'bfloat16',
  }
  writeFileSync(join(dir, 'config.json'), JSON.stringify(config))
  const specs = llamaShapes(size).map(([name, shape]): TensorSpec => {
    const bytes = shape.reduce((product, n) => product * n, 1) * BF16_BYTES
    return { name, dtype: 'BF16', shape, bytes }
  })
  const pattern = patternOf(seed)
  const fd = openSync(join(dir, 'model.safetensors'), 'w')
  try {
    writeSync(fd, headerFor(specs))
    let remainingBytes = specs.reduce((sum, { bytes }) => sum + bytes, 0)
    for (; remainingBytes > 0; remainingBytes -= pattern.length)
      writeSync(fd, pattern, 0, Math.min(remainingBytes, pattern.length))
  } finally {
    closeSync(fd)
  }
  return specs.reduce((sum, { bytes }) => sum + bytes / BF16_BYTES, 0)
}

function patternOf(seed: number): Buffer {
  const common = randomNumbers(PATTERN, 1, 0.02)
  const own = randomNumbers(PATTERN, seed + 2, seed === 0 ? 0 : 0.002)
  return Buffer.from(Uint16Array.from(common, (value, i) => toBf16(value + (own[i] ?? 0))).buffer)
}
