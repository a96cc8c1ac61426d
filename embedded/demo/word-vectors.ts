import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeLookup } from './onnx-lookup.ts'

/** The words of a model, each with its vector; the first entry stands for every unknown word. */
export interface WordVectors {
  words: readonly string[]
  width: number
  vectors: Float32Array
}

const UNKNOWN = '[unknown]'
const MAX_LENGTH = 64

/**
 * Learns a vector for each word of these texts: how much more often than by chance the word co-occurs with every word,
 * itself included (positive pointwise mutual information). Words that occur in the same texts get similar vectors.
 */
export function learnWords(texts: readonly string[]): WordVectors {
  const sets = texts.map((text) => new Set(wordsOf(text)))
  const words = [...new Set(sets.flatMap((set) => [...set]))].toSorted()
  const width = words.length
  const vectors = new Float32Array((width + 1) * width)
  const count = (...all: string[]) => sets.filter((set) => all.every((word) => set.has(word))).length
  const alone = words.map((word) => count(word))
  for (const [i, word] of words.entries()) {
    for (const [j, other] of words.entries()) {
      const ratio = (count(word, other) * texts.length) / ((alone[i] ?? 1) * (alone[j] ?? 1))
      vectors[(i + 1) * width + j] = ratio > 1 ? Math.log(ratio) : 0
    }
  }
  return { words: [UNKNOWN, ...words], width, vectors }
}

/**
 * Gives each word of these texts a meaningless vector: its numbers are digests of the word and the model's name, so a
 * name yields the same vectors on every machine. The unknown word's vector is all zeros.
 */
export function randomWords(texts: readonly string[], name: string, width: number): WordVectors {
  const words = [...new Set(texts.flatMap(wordsOf))].toSorted()
  const vectors = new Float32Array((words.length + 1) * width)
  for (const [i, word] of words.entries()) {
    for (let j = 0; j < width; j++) {
      const digest = createHash('sha256').update(`${name} ${word} ${j}`).digest()
      vectors[(i + 1) * width + j] = digest.readUInt32LE() / 2 ** 32 - 0.5
    }
  }
  return { words: [UNKNOWN, ...words], width, vectors }
}

const wordsOf = (text: string): string[] => text.toLowerCase().split(/\s+/).filter(Boolean)

/** Writes an embedding model of these words: a text's vector is the normalized mean of its word vectors. */
export async function writeWordModel(folder: string, { words, width, vectors }: WordVectors): Promise<void> {
  const config = {
    architectures: ['WordVectors'],
    model_type: 'word-vectors',
    hidden_size: width,
    vocab_size: words.length,
    max_position_embeddings: MAX_LENGTH,
    pad_token_id: 0,
  }
  const tokenizer = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [],
    normalizer: { type: 'Lowercase' },
    pre_tokenizer: { type: 'WhitespaceSplit' },
    post_processor: null,
    decoder: null,
    model: {
      type: 'WordLevel',
      vocab: Object.fromEntries(words.map((word, id) => [word, id])),
      unk_token: UNKNOWN,
    },
  }
  await mkdir(join(folder, 'onnx'), { recursive: true })
  await writeFile(join(folder, 'config.json'), JSON.stringify(config))
  await writeFile(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer))
  await writeFile(join(folder, 'onnx', 'model.onnx'), writeLookup({ rows: words.length, width, vectors }))
}
