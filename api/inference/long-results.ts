import type { LongAnswers } from '../http/long-answers.ts'
import type { AnyRequest } from '../http/route.ts'

/** Reading a result beyond this size costs the gateway enough to wait for a turn. */
export const LONG_RESULT_BYTES = 256 * 1024

/**
 * Reads a result in a turn of its account where it is long; a poll of an open task or a short result never waits. The
 * turn ends once the client has read the response, after a pause in proportion to the length. `bytes` is the stored
 * length, so that waiting requests hold no result.
 */
export async function inTurnOfResult<T>(
  longAnswers: LongAnswers,
  {
    accountId,
    bytes,
    signal,
    res,
    surface,
  }: { accountId: string; bytes: number } & Pick<AnyRequest, 'signal' | 'res' | 'surface'>,
  read: () => Promise<T>,
): Promise<T> {
  if (bytes <= LONG_RESULT_BYTES) return read()
  const turn = await longAnswers.take(accountId, signal)
  try {
    return await read()
  } finally {
    // Several calls of tools may share one response.
    turn.endWith(surface === undefined ? res : undefined, bytes)
  }
}
