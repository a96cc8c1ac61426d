import { writeFile } from 'node:fs/promises'

/** The tiny model's answer in pieces: each piece is one token, and no piece occurs twice. */
const ANSWER = [
  'Hello!',
  ' I am',
  ' a very small',
  ' language model,',
  ' made',
  ' on this machine',
  ' a moment',
  ' ago.',
  ' One sentence',
  ' is all',
  ' I know,',
  ' but it came',
  ' to you',
  ' word by word',
  ' through the gateway,',
  ' a node',
  ' and llama.cpp.',
] as const

const WIDTH = 64
const HEADS = 4
/** The logit of the next piece exceeds all others by this much, so sampling never changes the answer. */
const CERTAINTY = 32
const ALIGNMENT = 32
const TEMPLATE =
  "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}" +
  "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

const TYPE = { u32: 4, i32: 5, f32: 6, string: 8, array: 9 } as const
const KIND = { normal: 1, unknown: 2, control: 3, byte: 6 } as const

interface Token {
  text: string
  kind: number
}

const control = (text: string): Token => ({ text, kind: KIND.control })
const COMMON: readonly Token[] = [
  { text: '<unk>', kind: KIND.unknown },
  control('<s>'),
  control('<|im_end|>'),
  control('<|im_start|>'),
  ...Array.from({ length: 256 }, (_, byte) => ({
    text: `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
    kind: KIND.byte,
  })),
]
const END = 2
const FIRST = COMMON.length

export interface TinyGguf {
  /** The answer: fewer than 64 distinct pieces. */
  answer?: readonly string[]
  /** The context size in tokens. */
  context?: number
}

/**
 * Writes a real, if tiny, Llama as GGUF. Its weights are computed rather than trained: each piece of its one sentence
 * leads to the next, and anything else to the first.
 */
export async function writeTinyGguf(
  path: string,
  { answer = ANSWER, context = 2_048 }: TinyGguf = {},
): Promise<void> {
  const replyTokens = answer.map((text) => ({ text: text.replaceAll(' ', '\u2581'), kind: KIND.normal }))
  const tokens = [...COMMON, ...replyTokens]
  const tensors = tensorsOf(tokens.length, answer.length)
  const head = new Writer()
  head.bytes(Buffer.from('GGUF'))
  head.u32(3)
  head.u64(tensors.length)
  const settings = settingsOf(tokens, context)
  head.u64(settings.length)
  for (const write of settings) write(head)
  let offset = 0
  for (const { name, dims, data } of tensors) {
    head.string(name)
    head.u32(dims.length)
    for (const dim of dims) head.u64(dim)
    head.u32(0)
    head.u64(offset)
    offset += aligned(data.byteLength)
  }
  const parts = [padded(head.done())]
  for (const { data } of tensors) parts.push(padded(Buffer.from(data.buffer)))
  await writeFile(path, Buffer.concat(parts))
}

interface Tensor {
  name: string
  /** Fastest dimension first. */
  dims: number[]
  data: Float32Array
}

function tensorsOf(tokens: number, pieces: number): Tensor[] {
  const zeros = (name: string, ...dims: number[]): Tensor => ({
    name,
    dims,
    data: new Float32Array(dims.reduce((product, dim) => product * dim, 1)),
  })
  const ones = (name: string): Tensor => ({ name, dims: [WIDTH], data: new Float32Array(WIDTH).fill(1) })
  const embedding = zeros('token_embd.weight', WIDTH, tokens)
  const output = zeros('output.weight', WIDTH, tokens)
  // Each piece gets its own direction, and all other tokens share one. After the norm, each vector has length
  // sqrt(WIDTH).
  for (let token = 0; token < tokens; token++) {
    const piece = token >= FIRST ? token - FIRST + 1 : 0
    embedding.data[token * WIDTH + piece] = 1
  }
  for (let piece = 0; piece <= pieces; piece++) {
    const next = piece < pieces ? FIRST + piece : END
    output.data[next * WIDTH + piece] = CERTAINTY / Math.sqrt(WIDTH)
  }
  // All weights are zero, so the layer adds nothing.
  const layer = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down']
  return [
    embedding,
    ones('output_norm.weight'),
    output,
    ones('blk.0.attn_norm.weight'),
    ones('blk.0.ffn_norm.weight'),
    ...layer.map((name) => zeros(`blk.0.${name}.weight`, WIDTH, WIDTH)),
  ]
}

type Setting = (writer: Writer) => void

function settingsOf(tokens: readonly Token[], context: number): Setting[] {
  const text =
    (key: string, value: string): Setting =>
    (writer) => {
      writer.key(key, TYPE.string)
      writer.string(value)
    }
  const count =
    (key: string, value: number): Setting =>
    (writer) => {
      writer.key(key, TYPE.u32)
      writer.u32(value)
    }
  const list =
    (key: string, type: number, write: (writer: Writer, token: Token) => void): Setting =>
    (writer) => {
      writer.key(key, TYPE.array)
      writer.u32(type)
      writer.u64(tokens.length)
      for (const token of tokens) write(writer, token)
    }
  return [
    text('general.architecture', 'llama'),
    text('general.name', 'tiny'),
    count('llama.context_length', context),
    count('llama.embedding_length', WIDTH),
    count('llama.block_count', 1),
    count('llama.feed_forward_length', WIDTH),
    count('llama.attention.head_count', HEADS),
    count('llama.attention.head_count_kv', HEADS),
    count('llama.rope.dimension_count', WIDTH / HEADS),
    count('llama.vocab_size', tokens.length),
    (writer) => {
      writer.key('llama.attention.layer_norm_rms_epsilon', TYPE.f32)
      writer.f32(1e-6)
    },
    text('tokenizer.ggml.model', 'llama'),
    list('tokenizer.ggml.tokens', TYPE.string, (writer, token) => writer.string(token.text)),
    list('tokenizer.ggml.scores', TYPE.f32, (writer, token) =>
      writer.f32(token.kind === KIND.normal ? -1 : 0),
    ),
    list('tokenizer.ggml.token_type', TYPE.i32, (writer, token) => writer.u32(token.kind)),
    count('tokenizer.ggml.bos_token_id', 1),
    count('tokenizer.ggml.eos_token_id', END),
    count('tokenizer.ggml.unknown_token_id', 0),
    text('tokenizer.chat_template', TEMPLATE),
  ]
}

/** Little-endian, as the format requires. */
class Writer {
  readonly #parts: Buffer[] = []

  bytes(value: Buffer): void {
    this.#parts.push(value)
  }

  u32(value: number): void {
    const part = Buffer.alloc(4)
    part.writeUInt32LE(value)
    this.#parts.push(part)
  }

  u64(value: number): void {
    const part = Buffer.alloc(8)
    part.writeBigUInt64LE(BigInt(value))
    this.#parts.push(part)
  }

  f32(value: number): void {
    const part = Buffer.alloc(4)
    part.writeFloatLE(value)
    this.#parts.push(part)
  }

  string(value: string): void {
    const part = Buffer.from(value)
    this.u64(part.length)
    this.#parts.push(part)
  }

  key(name: string, type: number): void {
    this.string(name)
    this.u32(type)
  }

  done(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
const padded = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc(aligned(bytes.length) - bytes.length)])
