import * as shownTaskRepository from '../../db/repositories/tasks/shown.ts'
import { isCanonicalUuid } from '../../domain/uuid.ts'
import { GatheredReads } from '../../platform/async/gathered-reads.ts'
import type { LongAnswers } from '../http/long-answers.ts'
import type { AnyRequest } from '../http/route.ts'
import type { Services } from '../services.ts'

/** Reading a result beyond this size costs the gateway enough to wait for a turn. */
export const LONG_RESULT_BYTES = 256 * 1024

/** The request that a result is read for. */
type Reader = Pick<AnyRequest, 'signal' | 'res' | 'surface'>

type Found = Promise<shownTaskRepository.MeasuredTask | undefined>
interface TaskOfAccount {
  readonly id: string
  readonly accountId: string
}

/** Finds a task of an account, without its result where that is long: `completeResult` adds it. */
export async function findShownTask(db: Services['db'], { id, accountId }: TaskOfAccount): Found {
  const found = await shownTaskRepository.findShownTasks(db, { ids: [id], accountId }, LONG_RESULT_BYTES)
  return [...found.values()][0]
}

/** The reads of tasks, for each database of this process. */
const reads = new WeakMap<Services['db'], GatheredReads<shownTaskRepository.MeasuredTask>>()

/** Does the same for requests of an account that poll: those that come at once share a statement, which leaves out more results. */
export function findPolledTask(db: Services['db'], { id, accountId }: TaskOfAccount): Found {
  // A read of several returns ids as PostgreSQL writes them, and fails for all where one is none.
  if (!isCanonicalUuid(id)) return findShownTask(db, { id, accountId })
  const known = reads.get(db)
  if (known) return known.get(accountId, id)
  const opened = new GatheredReads<shownTaskRepository.MeasuredTask>((ownerId, ids) =>
    shownTaskRepository.findShownTasks(
      db,
      { ids, accountId: ownerId },
      Math.floor(LONG_RESULT_BYTES / ids.length),
    ),
  )
  reads.set(db, opened)
  return opened.get(accountId, id)
}

/** Returns a task with its result, which is read now if it was left out, in a turn of its account where it is long. */
export async function completeResult(
  { db, longAnswers }: Pick<Services, 'db' | 'longAnswers'>,
  task: shownTaskRepository.MeasuredTask,
  { signal, res, surface }: Reader,
): Promise<shownTaskRepository.ShownTask> {
  const { id, account_id: accountId, result_bytes: bytes } = task
  if (task.result !== null || bytes === 0) return task
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
