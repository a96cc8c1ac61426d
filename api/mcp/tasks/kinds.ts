import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { ApiError } from '../../../domain/errors.ts'
import type { AccountRequestContext } from '../tool.ts'
import type { TaskState } from './state.ts'

/** One kind of work that may continue as a task. Its task ids have the form `<name>.<id>`. */
export interface TaskKind {
  readonly name: string
  /** Throws `not_found` if the account has no task with this id. */
  get(id: string, context: AccountRequestContext): Promise<TaskState>
  /** Cancels a task; may throw `conflict` if it has already ended. */
  cancel(id: string, context: AccountRequestContext): Promise<void>
}

/** The poll interval that we ask clients to use. */
const POLL_INTERVAL_MS = 2_000

/** Returns a task's wire fields. Clients can read a task as long as its row exists. */
export const taskFields = (state: TaskState) => ({ ...state, ttlMs: null, pollIntervalMs: POLL_INTERVAL_MS })

/** Serves `tasks/get`. */
export const getTaskState = (
  kinds: readonly TaskKind[],
  taskId: string,
  context: AccountRequestContext,
): Promise<TaskState> => withTask(kinds, taskId, (kind, id) => kind.get(id, context))

/** Serves `tasks/cancel`. A task that has already ended isn't an error. */
export const cancelTaskById = (
  kinds: readonly TaskKind[],
  taskId: string,
  context: AccountRequestContext,
): Promise<void> =>
  withTask(kinds, taskId, async (kind, id) => {
    try {
      await kind.cancel(id, context)
    } catch (err) {
      if (!(err instanceof ApiError && err.code === 'conflict')) throw err
    }
  })

async function withTask<T>(
  kinds: readonly TaskKind[],
  taskId: string,
  act: (kind: TaskKind, id: string) => Promise<T>,
): Promise<T> {
  const dot = taskId.indexOf('.')
  const kind = kinds.find(({ name }) => name === taskId.slice(0, dot))
  try {
    if (kind) return await act(kind, taskId.slice(dot + 1))
  } catch (err) {
    // Treat a malformed id like an unknown one.
    if (!(err instanceof ApiError && (err.code === 'not_found' || err.code === 'validation_failed')))
      throw err
  }
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'there is no task with this id')
}
