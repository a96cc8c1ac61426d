import { CANCELLED_BY_CALLER, isTerminalTask } from '../../../domain/inference-task.ts'
import type { InferenceTask } from '../../../schemas/inference-task.ts'
import { callOperation } from '../../http/call-operation.ts'
import { cancelTask } from '../../routes/builder/tasks/cancel-task.ts'
import { getTask } from '../../routes/builder/tasks/get-task.ts'
import { answerOfTask, inferenceResult, stepInWords } from '../inference-result.ts'
import type { RequestOfAccount } from '../tool.ts'
import type { TaskKind } from './kinds.ts'
import type { TaskState } from './state.ts'

export const readInferenceTask = ({ request, services }: RequestOfAccount, task_id: string) =>
  callOperation(getTask, { request, params: { task_id } }, services) as Promise<InferenceTask>

/** Inferences that outlast the call which has asked for them. */
export const inferenceTasks: TaskKind = {
  name: 'inference',
  get: async (id, context) => stateOfInference(await readInferenceTask(context, id), context),
  async cancel(task_id, { request, services }) {
    await callOperation(cancelTask, { request, params: { task_id } }, services)
  },
}

export function stateOfInference(task: InferenceTask, { services }: RequestOfAccount): TaskState {
  const { task_id, status, error, created_at, completed_at } = task
  const shared = {
    taskId: `inference.${task_id}`,
    statusMessage: stepInWords(task),
    createdAt: created_at,
    lastUpdatedAt: completed_at ?? services.now().toISOString(),
  }
  if (!isTerminalTask(status)) return { ...shared, status: 'working' }
  if (error === CANCELLED_BY_CALLER) return { ...shared, status: 'cancelled' }
  return { ...shared, status: 'completed', result: inferenceResult(answerOfTask(task)) }
}
