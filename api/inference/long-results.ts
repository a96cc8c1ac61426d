import * as shownTaskRepository from '../../db/repositories/tasks/shown.ts'
import { isCanonicalUuid } from '../../domain/uuid.ts'
import { GatheredReads } from '../../platform/async/gathered-reads.ts'
import type { LongResponses } from '../http/long-responses.ts'
import type { AnyRequest } from '../http/route.ts'
import type { Services } from '../services.ts'

/** Reading a larger result costs the gateway enough that the request must wait for its account's turn. */
export const LONG_RESULT_BYTES = 256 * 1024

/** The request that reads a result. */
type Reader = Pick<AnyRequest, 'signal' | 'res' | 'surface'>

type TaskLookup = Promise<shownTaskRepository.MeasuredTask | undefined>
interface AccountTask {
  readonly id: string
  readonly accountId: string
}

/** Finds an account's task, without a long result; `completeResult` adds that. */
export async function findShownTask(db: Services['db'], { id, accountId }: AccountTask): TaskLookup {
  const found = await shownTaskRepository.findShownTasks(db, { ids: [id], accountId }, LONG_RESULT_BYTES)
  return [...found.values()][0]
}

/** The gathered task reads, per database of this process. */
const reads = new WeakMap<Services['db'], GatheredReads<shownTaskRepository.MeasuredTask>>()

/** Like `findShownTask`, but for polls. An account's concurrent polls share one statement, which omits more results. */
export function findPolledTask(db: Services['db'], { id, accountId }: AccountTask): TaskLookup {
  // A shared read returns ids in PostgreSQL's canonical form, and fails for all ids if one isn't a UUID.
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

/** Returns a task with its result. Reads a result that was left out; a long one waits for its account's turn. */
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
 * Reads a long result in its account's turn; polls of an open task or a short result never wait. The turn ends after
 * the client has read the response and a pause in proportion to its length. `bytes` is the stored length, so waiting
 * requests hold no result.
 */
export async function inTurnOfResult<T>(
  longAnswers: LongResponses,
  { accountId, bytes, signal, res, surface }: { accountId: string; bytes: number } & Reader,
  read: () => Promise<T>,
): Promise<T> {
  if (bytes <= LONG_RESULT_BYTES) return read()
  const turn = await longAnswers.take(accountId, signal)
  try {
    return await read()
  } finally {
    // Several tool calls may share one response.
    turn.endWith(surface === undefined ? res : undefined, bytes)
  }
}
