import { type FileHandle, rm } from 'node:fs/promises'
import type { LlamaSequence } from './binding.ts'
import { BadPayloadError } from './exchange.ts'
import { OUTPUT_TOKENS } from './prompt-length.ts'

/**
 * The magic number of llama.cpp's state of one sequence (`ggsq`), which precedes a version and the number of tokens.
 */
const MAGIC = 0x67677371
const HEAD_BYTES = 12
const TOKEN_BYTES = 4

/** The size of a model's states in bytes, which grows linearly with the number of tokens. */
export interface StateSize {
  fixed: number
  perToken: number
}

/** A verified state: its file and its tokens. */
export interface ReadState {
  path: string
  tokens: number[]
}

/** Measures the states of a model on an unused sequence; undefined if their size doesn't grow linearly. */
export async function measureStates(
  sequence: LlamaSequence,
  { token, draft }: { token: number; draft: string },
): Promise<StateSize | undefined> {
  if (sequence.needsCheckpoints) return undefined
  const sizes: number[] = []
  await sequence.clearHistory()
  try {
    for (let count = 1; count <= 3; count++) {
      await sequence.evaluateWithoutGeneratingNewTokens([token])
      const { fileSize } = await sequence.saveStateToFile(draft)
      sizes.push(fileSize)
    }
  } finally {
    await sequence.clearHistory()
    await rm(draft, { force: true })
  }
  const [one = 0, two = 0, three = 0] = sizes
  const perToken = two - one
  return three - two === perToken ? { fixed: one - perToken, perToken } : undefined
}

/** Throws if the size of a state doesn't fit this model and number of tokens, e.g. due to different layers or heads. */
export function checkStateSize({ fixed, perToken }: StateSize, tokens: number, bytes: number): void {
  const wanted = fixed + tokens * perToken
  if (bytes !== wanted) {
    throw misshapen(`a state of ${tokens} tokens must have ${wanted} bytes on this model, not ${bytes}`)
  }
}

/**
 * Reads the tokens of a state. llama.cpp loads almost any bytes without complaint, so we check as much as possible in
 * advance.
 */
export async function tokensOfState(
  file: FileHandle,
  { contextSize, vocabularySize }: { contextSize: number; vocabularySize: number },
): Promise<number[]> {
  const head = Buffer.alloc(HEAD_BYTES)
  const { bytesRead } = await file.read(head, 0, HEAD_BYTES, 0)
  if (bytesRead < HEAD_BYTES || head.readUInt32LE(0) !== MAGIC) {
    throw misshapen('the payload is not a llama.cpp sequence state')
  }
  const count = head.readUInt32LE(8)
  const most = contextSize - OUTPUT_TOKENS
  if (count < 1 || count > most) {
    throw misshapen(`the payload has ${count} tokens; this model accepts at most ${most}`)
  }
  const bytes = Buffer.alloc(count * TOKEN_BYTES)
  const read = await file.read(bytes, 0, bytes.length, HEAD_BYTES)
  if (read.bytesRead < bytes.length) throw misshapen('the payload is truncated within its tokens')
  const tokens = Array.from({ length: count }, (_, i) => bytes.readInt32LE(i * TOKEN_BYTES))
  if (tokens.some((token) => token < 0 || token >= vocabularySize)) {
    throw misshapen('the payload has tokens that are not in the vocabulary of this model')
  }
  return tokens
}

const misshapen = (message: string): BadPayloadError => new BadPayloadError('shape_mismatch', message)
