import { ApiError } from '../../../domain/errors.ts'
import { CANCELLED_BY_CALLER, isTerminalTask } from '../../../domain/inference-task.ts'
import type { InferenceTask } from '../../../schemas/inference-task.ts'
import { maySeeTask } from '../../manifest/may-see-task.ts'
import { mayUse } from '../../manifest/tools-of.ts'
import { cancelTask } from '../../routes/builder/tasks/cancel-task.ts'
import { getTask } from '../../routes/builder/tasks/get-task.ts'
import { answerOfTask, inferenceResult, formatStep } from '../inference-result.ts'
import { operate } from '../operate.ts'
import type { AccountRequestContext } from '../tool.ts'
import type { TaskKind } from './kinds.ts'
import type { TaskState } from './state.ts'

export const readInferenceTask = (on: AccountRequestContext, task_id: string) =>
  operate<InferenceTask>(getTask, on, { params: { task_id } })

/** Inferences that outlast the call that started them. */
export const inferenceTasks: TaskKind = {
  name: 'inference',
  get: async (id, on) => stateOfInference(await visibleTask(on, id), on),
  async cancel(task_id, on) {
    await visibleTask(on, task_id)
    await operate(cancelTask, on, { params: { task_id } })
  },
}

/** A key limited to tools only sees its tools' tasks; a key with `run_inference` may call every model. */
async function visibleTask(on: AccountRequestContext, id: string): Promise<InferenceTask> {
  const { caller, services } = on
  const task = await readInferenceTask(on, id)
  if (mayUse(caller, { slug: 'run_inference' }) || (await maySeeTask(services.db, caller, task))) return task
  throw new ApiError('not_found', 'there is no task with this id')
}

export function stateOfInference(task: InferenceTask, { services }: AccountRequestContext): TaskState {
  const { task_id, status, error, created_at, completed_at } = task
  const shared = {
    taskId: `inference.${task_id}`,
    statusMessage: formatStep(task),
    createdAt: created_at,
    lastUpdatedAt: completed_at ?? services.now().toISOString(),
  }
  if (!isTerminalTask(status)) return { ...shared, status: 'working' }
  if (error === CANCELLED_BY_CALLER) return { ...shared, status: 'cancelled' }
  return { ...shared, status: 'completed', result: inferenceResult(answerOfTask(task)) }
}
