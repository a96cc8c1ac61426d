import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { headerFor, readTensors } from '../../../../node-runtime/merge/safetensors.ts'

type Dtype = 'BF16' | 'F16' | 'F32'

/** A tensor in memory. */
export interface Tensor {
  shape: number[]
  dtype: Dtype
  values: Float32Array
}

export interface TinyCheckpoint {
  seed?: number
  hidden?: number
  layers?: number
  vocab?: number
  dtype?: Dtype
  /** The dtype of tensors whose name contains the key. */
  dtypes?: Record<string, Dtype>
  tied?: boolean
  /** The number of weight files. */
  shards?: number
  /** The distance of this seed's weights from the common start. */
  spread?: number
  config?: Record<string, unknown>
  tokens?: string[]
  change?: (tensors: Map<string, Tensor>) => void
}

/** Returns normally distributed numbers, deterministic per seed. */
export function randomNumbers(count: number, seed: number, scale = 1): Float32Array {
  let state = (seed * 2_654_435_761 + 12_345) >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  return Float32Array.from({ length: count }, () => (next() + next() + next() + next() - 2) * 1.7 * scale)
}

const view = new DataView(new ArrayBuffer(4))

/** Returns the bits of the nearest bfloat16, with ties to even. */
export function toBf16(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0
  view.setFloat32(0, value)
  const bits = view.getUint32(0)
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff
}

export function fromBf16(bits: number): number {
  view.setUint32(0, bits << 16)
  return view.getFloat32(0)
}

/** Rounds a number to bfloat16. */
export const bf16 = (value: number): number => fromBf16(toBf16(value))

/** Returns the tensors of a tiny Llama: random, and close to those of every other seed. */
export function tinyTensors(options: TinyCheckpoint = {}): Map<string, Tensor> {
  const {
    seed = 0,
    hidden = 24,
    layers = 2,
    vocab = 50,
    dtype = 'BF16',
    dtypes = {},
    tied,
    spread = 0.1,
  } = options
  const tensors = new Map<string, Tensor>()
  let number = 0
  const add = (name: string, ...shape: number[]) => {
    number += 1
    const count = shape.reduce((product, n) => product * n, 1)
    const common = randomNumbers(count, number)
    const own = randomNumbers(count, number + 1_000 * (seed + 1), seed === 0 ? 0 : spread)
    const type = Object.entries(dtypes).find(([part]) => name.includes(part))?.[1] ?? dtype
    tensors.set(name, { shape, dtype: type, values: common.map((value, i) => value + (own[i] ?? 0)) })
  }
  add('model.embed_tokens.weight', vocab, hidden)
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`
    for (const part of ['q', 'k', 'v', 'o']) add(`${at}.self_attn.${part}_proj.weight`, hidden, hidden)
    for (const part of ['gate', 'up']) add(`${at}.mlp.${part}_proj.weight`, hidden * 2, hidden)
    add(`${at}.mlp.down_proj.weight`, hidden, hidden * 2)
    add(`${at}.input_layernorm.weight`, hidden)
  }
  add('model.norm.weight', hidden)
  if (!tied) add('lm_head.weight', vocab, hidden)
  options.change?.(tensors)
  return tensors
}

/** Writes a tiny Llama without Python: config, tokenizer and weights. */
export function writeCheckpoint(dir: string, options: TinyCheckpoint = {}): Map<string, Tensor> {
  const { hidden = 24, layers = 2, vocab = 50, tied = false, shards = 1, tokens } = options
  mkdirSync(dir, { recursive: true })
  const config = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: hidden,
    num_hidden_layers: layers,
    vocab_size: vocab,
    tie_word_embeddings: tied,
    torch_dtype: 'bfloat16',
    ...options.config,
  }
  writeFileSync(join(dir, 'config.json'), JSON.stringify(config))
  writeTokenizer(dir, tokens ?? Array.from({ length: vocab }, (_, i) => `t${i}`))
  const tensors = tinyTensors(options)
  const names = [...tensors.keys()]
  const map: Record<string, string> = {}
  for (let shard = 0; shard < shards; shard++) {
    const file = shards === 1 ? 'model.safetensors' : `model-${shard + 1}-of-${shards}.safetensors`
    const here = names.filter((_, i) => i % shards === shard)
    writeTensors(join(dir, file), new Map(here.map((name) => [name, tensors.get(name)!])))
    for (const name of here) map[name] = file
  }
  if (shards > 1) {
    writeFileSync(
      join(dir, 'model.safetensors.index.json'),
      JSON.stringify({ metadata: {}, weight_map: map }),
    )
  }
  return tensors
}

function writeTokenizer(dir: string, tokens: readonly string[]): void {
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]))
  const tokenizer = { version: '1.0', added_tokens: [], model: { type: 'WordLevel', vocab } }
  writeFileSync(join(dir, 'tokenizer.json'), JSON.stringify(tokenizer))
  writeFileSync(join(dir, 'tokenizer_config.json'), '{"model_max_length":128}')
}

/** Writes a safetensors file. */
export function writeTensors(path: string, tensors: ReadonlyMap<string, Tensor>): void {
  const bodies = [...tensors].map(([name, tensor]) => ({ name, ...tensor, data: encode(tensor) }))
  const header = headerFor(
    bodies.map(({ name, dtype, shape, data }) => ({ name, dtype, shape, bytes: data.length })),
  )
  writeFileSync(path, Buffer.concat([header, ...bodies.map(({ data }) => data)]))
}

function encode({ dtype, values }: Tensor): Buffer {
  if (dtype === 'F32') return Buffer.from(values.buffer, values.byteOffset, values.byteLength)
  const bits =
    dtype === 'BF16' ? Uint16Array.from(values, toBf16) : new Uint16Array(new Float16Array(values).buffer)
  return Buffer.from(bits.buffer)
}

/** Reads all tensors of a folder by name; bf16 only. */
export async function readCheckpoint(dir: string): Promise<Map<string, Float32Array>> {
  const found = new Map<string, Float32Array>()
  for (const file of readdirSync(dir).filter((name) => name.endsWith('.safetensors'))) {
    const bytes = readFileSync(join(dir, file))
    for (const [name, tensor] of await readTensors(join(dir, file), file)) {
      const bits = new Uint16Array(
        new Uint8Array(bytes.subarray(tensor.offset, tensor.offset + tensor.bytes)).buffer,
      )
      found.set(name, Float32Array.from(bits, fromBf16))
    }
  }
  return found
}

/** Reads all tensors of a file by name; float32 only. */
export async function readWide(path: string): Promise<Map<string, Float32Array>> {
  const bytes = readFileSync(path)
  const places = [...(await readTensors(path, path))]
  return new Map(
    places.map(([name, { offset, bytes: size }]) => [
      name,
      new Float32Array(new Uint8Array(bytes.subarray(offset, offset + size)).buffer),
    ]),
  )
}

export interface TinyAdapter {
  rank?: number
  seed?: number
  config?: Record<string, unknown>
  /** The adapted modules and the shape of their deltas. */
  modules?: Record<string, [number, number]>
  /** True if each module also has DoRA magnitudes. */
  dora?: boolean
  /** Tensors that are saved in full, and their shape. */
  saved?: Record<string, [number, number]>
  /** The dtype of the factors. */
  dtype?: Dtype
}

/** Writes a LoRA adapter in the format of PEFT; returns its factors by the name of the tensor they change. */
export function writeAdapter(
  dir: string,
  {
    rank = 4,
    seed = 1,
    config = {},
    modules = { 'model.layers.0.self_attn.q_proj': [24, 24] },
    dora = false,
    saved = {},
    dtype = 'F32',
  }: TinyAdapter = {},
): Map<string, { a: Float32Array; b: Float32Array; rank: number }> {
  mkdirSync(dir, { recursive: true })
  const json = {
    peft_type: 'LORA',
    r: rank,
    lora_alpha: rank * 2,
    bias: 'none',
    fan_in_fan_out: false,
    use_dora: dora,
    modules_to_save: Object.keys(saved),
    ...config,
  }
  writeFileSync(join(dir, 'adapter_config.json'), JSON.stringify(json))
  const tensors = new Map<string, Tensor>()
  const factors = new Map<string, { a: Float32Array; b: Float32Array; rank: number }>()
  Object.entries(modules).forEach(([module, [outs, ins]], i) => {
    const a = randomNumbers(rank * ins, seed * 50 + i, 0.1)
    const b = randomNumbers(outs * rank, seed * 50 + i + 25, 0.1)
    tensors.set(`base_model.model.${module}.lora_A.weight`, { shape: [rank, ins], dtype, values: a })
    tensors.set(`base_model.model.${module}.lora_B.weight`, { shape: [outs, rank], dtype, values: b })
    factors.set(`${module}.weight`, { a, b, rank })
    if (!dora) return
    const values = randomNumbers(outs, seed * 50 + i + 40).map((value) => 5 + value)
    const name = `base_model.model.${module}.lora_magnitude_vector`
    tensors.set(name, { shape: [outs], dtype: 'F32', values })
  })
  Object.entries(saved).forEach(([module, shape], i) => {
    const values = randomNumbers(shape[0] * shape[1], seed * 50 + i + 45)
    tensors.set(`base_model.model.${module}.weight`, { shape, dtype: 'F32', values })
  })
  writeTensors(join(dir, 'adapter_model.safetensors'), tensors)
  return factors
}

/** Reads every file under a folder, keyed by relative path. */
export function filesBelow(dir: string): Map<string, Buffer> {
  const names = readdirSync(dir, { recursive: true, encoding: 'utf8' })
  const files = names.map((name) => join(dir, name)).filter((path) => statSync(path).isFile())
  return new Map(files.toSorted().map((path) => [relative(dir, path), readFileSync(path)]))
}
