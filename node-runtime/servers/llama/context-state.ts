import { type FileHandle, rm } from 'node:fs/promises'
import type { LlamaSequence } from './binding.ts'
import { BadPayloadError } from './exchange.ts'

/** The first bytes of a state of one sequence, as llama.cpp writes it: `ggsq`, a version, and the number of its tokens. */
const MAGIC = 0x67677371
const HEAD_BYTES = 12
const TOKEN_BYTES = 4

/** The bytes of states of one model: they grow by as much with each token. */
export interface StateSize {
  fixed: number
  perToken: number
}

/** A verified state: its file, and the tokens that it is of. */
export interface ReadState {
  path: string
  tokens: number[]
}

/** Measures the states of a model on a sequence that nobody uses; undefined where they do not grow evenly. */
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

/** Throws for a state that this model does not write of so many tokens, as one of other layers or heads. */
export function checkStateSize({ fixed, perToken }: StateSize, tokens: number, bytes: number): void {
  const wanted = fixed + tokens * perToken
  if (bytes !== wanted) {
    throw misshapen(`a state of ${tokens} tokens has ${wanted} bytes on this model, not ${bytes}`)
  }
}

/**
 * Reads the tokens of a state. llama.cpp loads almost any bytes without a complaint, so that what can be known of
 * them is checked before.
 */
export async function tokensOfState(
  file: FileHandle,
  { contextSize, vocabularySize }: { contextSize: number; vocabularySize: number },
): Promise<number[]> {
  const head = Buffer.alloc(HEAD_BYTES)
  const { bytesRead } = await file.read(head, 0, HEAD_BYTES, 0)
  if (bytesRead < HEAD_BYTES || head.readUInt32LE(0) !== MAGIC) {
    throw misshapen('the payload is no state of a llama.cpp sequence')
  }
  const count = head.readUInt32LE(8)
  if (count < 1 || count >= contextSize) {
    throw misshapen(`the payload has ${count} tokens; this model reads at most ${contextSize}`)
  }
  const bytes = Buffer.alloc(count * TOKEN_BYTES)
  const read = await file.read(bytes, 0, bytes.length, HEAD_BYTES)
  if (read.bytesRead < bytes.length) throw misshapen('the payload ends within its tokens')
  const tokens = Array.from({ length: count }, (_, i) => bytes.readInt32LE(i * TOKEN_BYTES))
  if (tokens.some((token) => token < 0 || token >= vocabularySize)) {
    throw misshapen('the payload has tokens that are not in the vocabulary of this model')
  }
  return tokens
}

const misshapen = (message: string): BadPayloadError => new BadPayloadError('shape_mismatch', message)
