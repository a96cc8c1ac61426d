import * as shownTaskRepository from '../../db/repositories/tasks/shown.ts'
import type { LongAnswers } from '../http/long-answers.ts'
import type { AnyRequest } from '../http/route.ts'
import type { Services } from '../services.ts'

/** Reading a result beyond this size costs the gateway enough to wait for a turn. */
export const LONG_RESULT_BYTES = 256 * 1024

/** The request that a result is read for. */
type Reader = Pick<AnyRequest, 'signal' | 'res' | 'surface'>

/** Finds a task of an account for its caller, without its result where that is long: `completeResult` adds it. */
export const findShownTask = (
  db: Services['db'],
  of: { id: string; accountId: string },
): Promise<shownTaskRepository.MeasuredTask | undefined> =>
  shownTaskRepository.findShownTask(db, of, LONG_RESULT_BYTES)

/** Returns a task with its result, which is read in a turn of its account where it is long. */
export async function completeResult(
  { db, longAnswers }: Pick<Services, 'db' | 'longAnswers'>,
  task: shownTaskRepository.MeasuredTask,
  { signal, res, surface }: Reader,
): Promise<shownTaskRepository.ShownTask> {
  const { id, account_id: accountId, result_bytes: bytes } = task
  if (bytes <= LONG_RESULT_BYTES) return task
  const read = () => shownTaskRepository.findResult(db, id)
  return {
    ...task,
    result: await inTurnOfResult(longAnswers, { accountId, bytes, signal, res, surface }, read),
  }
}

/**
 * Reads a result in a turn of its account where it is long; a poll of an open task or a short result never waits. The
 * turn ends once the client has read the response, after a pause in proportion to the length. `bytes` is the stored
 * length, so that waiting requests hold no result.
 */
export async function inTurnOfResult<T>(
  longAnswers: LongAnswers,
  { accountId, bytes, signal, res, surface }: { accountId: string; bytes: number } & Reader,
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
