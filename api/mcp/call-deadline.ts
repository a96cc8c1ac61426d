import type { ServerContext } from '@modelcontextprotocol/server'
import { isTerminalTask } from '../../domain/inference-task.ts'
import type { InferenceTask } from '../../schemas/inference-task.ts'
import { formatStep } from './inference-result.ts'
import { takesTasks } from './tasks/declared.ts'
import { readInferenceTask } from './tasks/inference-tasks.ts'
import type { CallContext } from './tool.ts'

/** Clients give up after 60 s, so we answer well before that, with the task if it is still running. */
const TIMEOUT_MS = 40_000
/** A client that supports progress or tasks gets its first progress message or its task after this time. */
const FIRST_PROGRESS_DELAY_MS = 2_000

/** How one call waits for its model. */
export class CallDeadline {
  readonly #context: CallContext
  readonly #began = performance.now()

  constructor(context: CallContext) {
    this.#context = context
  }

  /** How many seconds to wait for the model's result before sending progress or a task. */
  get firstS(): number {
    const isBrisk = progressOf(this.#context.mcp) !== undefined || takesTasks(this.#context.mcp)
    return (isBrisk ? FIRST_PROGRESS_DELAY_MS : TIMEOUT_MS) / 1000
  }

  get elapsedMs(): number {
    return Math.round(performance.now() - this.#began)
  }

  /**
   * Waits for a task to end, sending progress while it runs. On timeout, returns the task even if it's still running.
   */
  async untilEnded(taskId: string): Promise<InferenceTask> {
    const { request, services, mcp } = this.#context
    const progress = progressOf(mcp)
    for (;;) {
      const task = await readInferenceTask(this.#context, taskId)
      const remainingMs = TIMEOUT_MS - this.elapsedMs
      if (isTerminalTask(task.status) || remainingMs <= 0 || request.disconnect.aborted) return task
      await progress?.(Math.round(this.elapsedMs / 1000), formatStep(task))
      await services.taskWaiters.wait(
        taskId,
        progress ? Math.min(remainingMs, FIRST_PROGRESS_DELAY_MS) : remainingMs,
        request.signal,
      )
    }
  }
}

/** Reports progress to the client: a number that grows with each call, and a sentence. */
type Progress = (done: number, message: string, total?: number) => Promise<void>

/** Returns a function that reports a request's progress, if the client requested progress. */
export function progressOf({ mcpReq }: ServerContext): Progress | undefined {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return undefined
  return (progress, message, total) =>
    mcpReq.notify({
      method: 'notifications/progress',
      params: { progressToken, progress, message, ...(total !== undefined && { total }) },
    })
}
