import { open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** The exit status of a model server whose weights cannot be loaded on any node; see ../README.md. */
export const UNUSABLE_STATUS = 65

/** Messages from llama.cpp and its binding about a file that is damaged, truncated or of an unknown type. */
const FAULTS_OF_WEIGHTS = [
  /model is corrupted or incomplete/,
  /unknown model architecture: /,
  /error loading model (?:hyperparameters|vocabulary): /,
  /gguf_init_\w+: (?:failed to read |invalid |this GGUF file is version |tensor |duplicate |key )/,
  /missing tensor '/,
  /tensor '[^']*' (?:not found|has wrong shape|has invalid|is duplicated)/,
  /wrong number of tensors/,
  /Invalid GGUF magic|Unsupported GGUF value type|GGUF version 1 is not supported/,
  /The value of "(?:size|offset)" is out of range/,
]
/** Messages about the machine, which take precedence over all others. */
const FAULTS_OF_MACHINE =
  /alloc|memory|mmap|mlock|no space|input\/output|permission|denied|too many open files|read error/i
const MAX_DETAIL = 300
/** llama.cpp logs from its own threads, so the explanation arrives after the failure. */
const LOG_TIMEOUT_MS = 1_000
const POLL_INTERVAL_MS = 50

/** The size of the header: `GGUF`, the version, the number of tensors and the number of metadata entries. */
const HEADER_BYTES = 24
const MIN_TENSOR_BYTES = 24
const MIN_ENTRY_BYTES = 13

/** Thrown if the weights can't be loaded. The message is a single line. */
export class UnusableWeightsError extends Error {
  override readonly name = 'UnusableWeightsError'

  constructor(why: string) {
    super(`its weights cannot be used: ${why.replace(/\s+/g, ' ').trim().slice(0, MAX_DETAIL)}`)
  }
}

/**
 * Rejects a file whose header shows that it is not a complete GGUF. Parsers that trust its counts would not terminate.
 */
export async function checkGgufHeader(path: string): Promise<void> {
  await using file = await open(path)
  const header = Buffer.alloc(HEADER_BYTES)
  const [{ bytesRead }, { size }] = [await file.read(header, 0, HEADER_BYTES, 0), await file.stat()]
  if (bytesRead < HEADER_BYTES || header.toString('latin1', 0, 4) !== 'GGUF') {
    throw new UnusableWeightsError('the file is not a GGUF')
  }
  const [tensors, entries] = [header.readBigUInt64LE(8), header.readBigUInt64LE(16)]
  if (tensors * BigInt(MIN_TENSOR_BYTES) + entries * BigInt(MIN_ENTRY_BYTES) > BigInt(size)) {
    throw new UnusableWeightsError('its header declares more tensors and metadata than the file can contain')
  }
}

/**
 * Classifies a failed load: an `UnusableWeightsError` if llama.cpp's log blames the weights with a known message,
 * otherwise the error itself. `written` is the log, which may still grow.
 */
export async function judgeLoadFailure(err: unknown, written: readonly string[]): Promise<unknown> {
  const message = err instanceof Error ? err.message : String(err)
  const fault = () =>
    [...written, message].find((line) => FAULTS_OF_WEIGHTS.some((words) => words.test(line)))
  for (let waited = 0; waited < LOG_TIMEOUT_MS && fault() === undefined; waited += POLL_INTERVAL_MS)
    await sleep(POLL_INTERVAL_MS)
  const found = fault()
  if (found === undefined || FAULTS_OF_MACHINE.test([message, ...written].join('\n'))) return err
  return new UnusableWeightsError(`llama.cpp rejects them: ${found}`)
}
