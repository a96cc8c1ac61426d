import type { CallToolResult } from '@modelcontextprotocol/server'
import type { InferenceTask, InferResponse } from '../../schemas/inference-task.ts'
import { structured } from './results.ts'

/** Returns an inference response from its task. */
export const answerOfTask = (task: InferenceTask): InferResponse => ({
  task_id: task.task_id,
  status: task.status,
  model_state: task.model_state,
  ...(task.result && { result: task.result }),
  ...(task.error !== null && { message: task.error }),
  sync_latency_ms: 0,
})

/** Returns an inference response as a tool result. */
export function inferenceResult({ note: _aboutRest, ...answer }: InferResponse): CallToolResult {
  const { task_id, status, message } = answer
  if (status === 'succeeded') return structured(answer)
  if (status === 'failed') {
    return structured(answer, { isError: true, text: `The model failed: ${message ?? 'no reason is known'}` })
  }
  const note = `The result is not ready yet (${status}); the work continues. To wait for it, call run_inference again with the same endpoint_id and input, and with task_id "${task_id}".`
  return structured({ ...answer, note }, { text: message === undefined ? note : `${message} ${note}` })
}

/** Describes a task's current step. */
export function formatStep({ status, status_detail }: InferenceTask): string {
  const { status: step = status, progress_pct: percent = 0 } = status_detail ?? {}
  const words = step.replaceAll('_', ' ')
  return percent > 0 ? `${words} (${percent} %)` : words
}
