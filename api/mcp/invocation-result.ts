import type { CallToolResult } from '@modelcontextprotocol/server'
import { ApiError } from '../../domain/errors.ts'
import type { Invocation } from '../../schemas/action.ts'
import { isEnded } from '../actions/present.ts'
import { parsed } from '../http/bodies/json-text.ts'
import { structured } from './results.ts'

/** Returns an invocation as its tool's result: the model's own result, or the job that an operation started. */
export function invocationResult(invocation: Invocation): CallToolResult {
  const { invocation_id, slug, status, error, task_id, job_id } = invocation
  const _meta = {
    'hearth/invocation_id': invocation_id,
    ...(task_id !== null && { 'hearth/task_id': task_id }),
  }
  if (status === 'failed')
    return { ...errorResult(`${slug} has failed: ${error ?? 'no reason is known'}`), _meta }
  if (job_id !== null) return { ...structured(started(invocation)), _meta }
  if (isEnded(invocation)) return { ...resultOf(invocation), _meta }
  return {
    ...errorResult(
      `The result is not ready yet (${status}); the work continues as invocation ${invocation_id}. To wait for it, call run_inference with endpoint_id "${slug}", the same input and task_id "${task_id}"; nothing runs twice.`,
    ),
    _meta,
  }
}

function resultOf(invocation: Invocation): CallToolResult {
  try {
    const { result } = parsed(invocation) as Invocation
    return structured(result ?? {})
  } catch (err) {
    if (err instanceof ApiError) return errorResult(err.message)
    throw err
  }
}

/** A result without structured output, which clients would check against the tool's output schema. */
const errorResult = (text: string): CallToolResult => ({ content: [{ type: 'text', text }], isError: true })

const started = (invocation: Invocation): Invocation => ({
  ...invocation,
  ...(!isEnded(invocation) && {
    note: `The job continues. Call get_training_run with run_id "${invocation.job_id}" to see when it has completed.`,
  }),
})
