import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { ApiError } from '../../../domain/errors.ts'
import type { RequestOfAccount } from '../tool.ts'
import type { TaskState } from './state.ts'

/** One kind of work that may go on as a task. Its tasks have ids of the form `<name>.<id>`. */
export interface TaskKind {
  readonly name: string
  /** Throws `not_found` for an id that the account has not. */
  get(id: string, context: RequestOfAccount): Promise<TaskState>
  /** Ends a task; one that has ended may throw `conflict`. */
  cancel(id: string, context: RequestOfAccount): Promise<void>
}

/** The time between two polls that clients are asked to keep. */
const POLL_INTERVAL_MS = 2_000

/** Returns the members of a task on the wire. Tasks are read for as long as the rows behind them exist. */
export const taskFields = (state: TaskState) => ({ ...state, ttlMs: null, pollIntervalMs: POLL_INTERVAL_MS })

/** Answers `tasks/get`. */
export const getTaskState = (
  kinds: readonly TaskKind[],
  taskId: string,
  context: RequestOfAccount,
): Promise<TaskState> => withTask(kinds, taskId, (kind, id) => kind.get(id, context))

/** Answers `tasks/cancel`: a task that has ended already is no error. */
export const cancelTaskById = (
  kinds: readonly TaskKind[],
  taskId: string,
  context: RequestOfAccount,
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
    // An id that no task could have is as unknown as one that no task has.
    if (!(err instanceof ApiError && (err.code === 'not_found' || err.code === 'validation_failed')))
      throw err
  }
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'there is no task with this id')
}
