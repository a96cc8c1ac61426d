import type { CallToolResult } from '@modelcontextprotocol/server'
import type { InferenceTask, InferResponse } from '../../schemas/inference-task.ts'
import { structured } from './results.ts'

/** Returns the answer to an inference from the row of its task. */
export const answerOfTask = (task: InferenceTask): InferResponse => ({
  task_id: task.task_id,
  status: task.status,
  model_state: task.model_state,
  ...(task.result && { result: task.result }),
  ...(task.error !== null && { message: task.error }),
  sync_latency_ms: 0,
})

/** Returns the answer to an inference as the result of a tool. */
export function inferenceResult({ note: _aboutRest, ...answer }: InferResponse): CallToolResult {
  const { task_id, status, message } = answer
  if (status === 'succeeded') return structured(answer)
  if (status === 'failed') {
    return structured(answer, { isError: true, text: `The model failed: ${message ?? 'no reason is known'}` })
  }
  const note = `The result is not there yet (${status}), and the work goes on. Call run_inference again with the same endpoint_id and input and with task_id "${task_id}" to wait for it.`
  return structured({ ...answer, note }, { text: message === undefined ? note : `${message} ${note}` })
}

/** Returns the step of a task in words. */
export function stepInWords({ status, status_detail }: InferenceTask): string {
  const { status: step = status, progress_pct: percent = 0 } = status_detail ?? {}
  const words = step.replaceAll('_', ' ')
  return percent > 0 ? `${words} (${percent} %)` : words
}
