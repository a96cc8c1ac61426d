import type { LongAnswers } from '../http/long-answers.ts'

/** From this size on, a result costs the gateway's thread enough to wait for a turn: it is parsed and written again. */
const LONG_RESULT_BYTES = 256 * 1024

/**
 * Reads a result in a turn of its account where it is long, with a pause after it in proportion to its length; a poll
 * of an open task or a short result never waits. `bytes` is the stored length, so that waiting requests hold no result.
 */
export async function inTurnOfResult<T>(
  longAnswers: LongAnswers,
  { accountId, bytes, signal }: { accountId: string; bytes: number; signal: AbortSignal },
  read: () => Promise<T>,
): Promise<T> {
  if (bytes < LONG_RESULT_BYTES) return read()
  using turn = await longAnswers.take(accountId, signal)
  turn.restForBytes(bytes)
  return await read()
}
