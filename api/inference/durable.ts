import { setTimeout as sleep } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import type { MeasuredTask } from '../../db/repositories/tasks/shown.ts'
import * as taskRepository from '../../db/repositories/tasks/tasks.ts'
import type { Database } from '../../db/tables.ts'
import { isTerminalTask } from '../../domain/inference-task.ts'
import type { ModelState } from '../../schemas/inference-task.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'
import { findShownTask } from './long-results.ts'
import { startOf } from './queue-task.ts'
import type { TaskDraft } from './rows.ts'

/** How long a task waits in memory while the database is unavailable, and the retry interval. */
const RETRY_TIMEOUT_MS = 10 * 60_000
const RETRY_DELAY_MS = 1_000

/**
 * Hands a task that this gateway can't finish over to a workflow. Retries while the database is unavailable, because no
 * other process would.
 */
export async function moveToWorkflow(
  { db, outbox, log }: Pick<Services, 'db' | 'outbox' | 'log'>,
  draft: TaskDraft,
): Promise<void> {
  for (const since = performance.now(); ; await sleep(RETRY_DELAY_MS)) {
    try {
      await db.transaction().execute((trx) => taskRepository.escalateTask(trx, draft.taskId, startOf(draft)))
      return outbox.poke()
    } catch (err) {
      if (performance.now() - since > RETRY_TIMEOUT_MS) throw err
      emit(log, 'task.hand_over_failed', { err, task_id: draft.taskId })
    }
  }
}

/** Waits for a task to end and returns it, without a long result; undefined if the time is up first. */
export async function awaitTask(
  { db }: Pick<Services, 'db'>,
  { taskId, accountId }: TaskDraft,
  ended: Promise<boolean>,
): Promise<MeasuredTask | undefined> {
  await ended
  const row = await findShownTask(db, { id: taskId, accountId })
  return row && isTerminalTask(row.status) ? row : undefined
}

/** Returns the estimated load time in seconds, for the response about a model that isn't loaded. */
export async function loadEstimate(
  { estimates }: Pick<Services, 'estimates'>,
  modelKey: string,
  state: ModelState,
): Promise<{ estimated_load_time_s?: number }> {
  return state === 'resident' ? {} : { estimated_load_time_s: await estimates.loadS(modelKey, state) }
}

/**
 * Cancels an open task for its owner: first ends its row, then stops the work, with a cancellation over the links and
 * through Temporal. Returns the previous row; undefined if there is no such task.
 */
export async function cancelTask(
  { db, now, links, temporal, log }: Pick<Services, 'db' | 'now' | 'links' | 'temporal' | 'log'>,
  taskId: string,
  error: string,
  inTransaction?: (trx: Transaction<Database>) => Promise<void>,
): Promise<taskRepository.TaskFacts | undefined> {
  const before = await db.transaction().execute(async (trx) => {
    const task = await taskRepository.endTask(trx, taskId, { status: 'failed', error }, now())
    if (task && !isTerminalTask(task.status)) await inTransaction?.(trx)
    return task
  })
  if (!before || isTerminalTask(before.status)) return before

  links.cancelTask(taskId)
  // If Temporal is unavailable, the workflow finds the ended row on its own later.
  temporal.workflow
    .getHandle(WORKFLOW_ID.task(taskId))
    .cancel()
    .catch((err: unknown) => emit(log, 'task.cancel_failed', { err, task_id: taskId }))
  return before
}
