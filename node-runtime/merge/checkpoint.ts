import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { MergeError } from './merge-error.ts'
import { readTensors, type TensorLocation } from './safetensors.ts'

/** A model on disk, in Hugging Face's folder format. */
export interface Checkpoint {
  /** The name used in messages. */
  label: string
  dir: string
  config: Record<string, unknown>
  /** In the order of the files. */
  tensors: Map<string, TensorLocation>
  /** True when input and output embeddings are one tensor. */
  isTied: boolean
  tokenizer: Tokenizer
}

export interface Tokenizer {
  /** Equal for tokenizers that split all text into the same tokens. */
  digest: string
  /** The tokens by id; undefined when the tokenizer's format is unknown. */
  vocabulary: ReadonlyMap<number, string> | undefined
}

const LM_HEAD = 'lm_head.weight'

/** Opens a folder: reads the config, the tokenizer and the headers of the weight files. */
export async function openCheckpoint(dir: string, label: string): Promise<Checkpoint> {
  const config = await readJson(join(dir, 'config.json'), label)
  if (config['quantization_config']) {
    throw new MergeError('quantised', `${label} is quantized; merges need its weights in bf16, f16 or f32.`)
  }
  const tensors = await readAllTensors(dir, label)
  const text = (config['text_config'] ?? {}) as Record<string, unknown>
  const isTied = Boolean(config['tie_word_embeddings'] ?? text['tie_word_embeddings'] ?? false)
  return { label, dir, config, tensors, isTied, tokenizer: await readTokenizer(dir) }
}

async function readAllTensors(dir: string, label: string): Promise<Map<string, TensorLocation>> {
  const names = await readdir(dir)
  const index = names.find((name) => name.endsWith('.safetensors.index.json'))
  const files = index
    ? await shards(join(dir, index), label)
    : names.filter((name) => name.endsWith('.safetensors')).toSorted()
  if (files.length === 0) throw new MergeError('weights_missing', `${label} has no safetensors weights.`)
  const tensors = new Map<string, TensorLocation>()
  for (const file of files) {
    if (!names.includes(file)) throw new MergeError('weights_missing', `${label} lacks its shard ${file}.`)
    const places = [...(await readTensors(join(dir, file), `${label}, ${file}`))]
    for (const [name, place] of places.toSorted(([, a], [, b]) => a.offset - b.offset))
      tensors.set(name, place)
  }
  return tensors
}

async function shards(path: string, label: string): Promise<string[]> {
  const { weight_map } = await readJson(path, label)
  const names = new Set(Object.values((weight_map ?? {}) as Record<string, string>))
  for (const name of names) {
    if (/[/\\]/.test(name)) throw new MergeError('file_invalid', `${label} names a shard outside its folder.`)
  }
  return [...names].toSorted()
}

/** Removes an output embedding that the file stores although the model ties it to its input embedding. */
export function dropTiedCopies(checkpoints: readonly Checkpoint[]): void {
  if (!checkpoints.every(({ isTied }) => isTied)) return
  if (checkpoints.every(({ tensors }) => tensors.has(LM_HEAD))) return
  for (const { tensors } of checkpoints) tensors.delete(LM_HEAD)
}

/** Reads the parts that determine the tokens. The rest of a tokenizer.json (padding, truncation) does not. */
async function readTokenizer(dir: string): Promise<Tokenizer> {
  const text = await readFile(join(dir, 'tokenizer.json'), 'utf8').catch(() => undefined)
  if (text !== undefined) {
    const { model, added_tokens, normalizer, pre_tokenizer } = JSON.parse(text) as Record<string, unknown>
    return {
      digest: digest(JSON.stringify([model, added_tokens, normalizer, pre_tokenizer])),
      vocabulary: vocabularyOf(model, added_tokens),
    }
  }
  const parts: Buffer[] = []
  for (const name of ['tokenizer.model', 'vocab.json', 'merges.txt', 'vocab.txt']) {
    const part = await readFile(join(dir, name)).catch(() => undefined)
    if (part) parts.push(Buffer.from(name), part)
  }
  return { digest: digest(Buffer.concat(parts)), vocabulary: undefined }
}

function vocabularyOf(model: unknown, added: unknown): Map<number, string> {
  const { vocab } = (model ?? {}) as { vocab?: unknown }
  const byId = new Map<number, string>()
  if (Array.isArray(vocab)) {
    ;(vocab as unknown[][]).forEach(([token], id) => byId.set(id, String(token)))
  } else {
    for (const [token, id] of Object.entries((vocab ?? {}) as Record<string, number>)) byId.set(id, token)
  }
  for (const { id, content } of (added ?? []) as { id: number; content: string }[]) byId.set(id, content)
  return byId
}

const digest = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')

/** Files of a model other than its weights. */
const COMPANIONS =
  /^(tokenizer.*|special_tokens_map\.json|added_tokens\.json|vocab\.(json|txt)|merges\.txt|generation_config\.json|chat_template\..*|preprocessor_config\.json)$/

export async function companionsOf({ dir }: Checkpoint): Promise<string[]> {
  const names = (await readdir(dir)).filter((name) => COMPANIONS.test(name)).toSorted()
  const files = await Promise.all(
    names.map(async (name) => ((await stat(join(dir, name))).isFile() ? [name] : [])),
  )
  return files.flat()
}

/** Reads a JSON object from a model's folder. */
export async function readJson(path: string, label: string): Promise<Record<string, unknown>> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>
  } catch (cause) {
    const name = path.split('/').at(-1)
    throw new MergeError('file_invalid', `${label} has no readable ${name}.`, { cause })
  }
}
