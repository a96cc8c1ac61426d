import { isTerminalTask } from '../../domain/inference-task.ts'
import type { InferenceTask } from '../../schemas/inference-task.ts'
import { stepInWords } from './inference-result.ts'
import { progressOf } from './progress.ts'
import { takesTasks } from './tasks/declared.ts'
import { readInferenceTask } from './tasks/inference-tasks.ts'
import type { CallContext } from './tool.ts'

/** Clients give up after 60 s, so a call is answered well before, with the task that goes on. */
const TIMEOUT_MS = 40_000
/** After this time a client that takes progress or tasks gets the first. */
const FIRST_PROGRESS_DELAY_MS = 2_000

/** The wait of one call for a model. */
export class Patience {
  readonly #context: CallContext
  readonly #began = performance.now()

  constructor(context: CallContext) {
    this.#context = context
  }

  /** The time for which the model is asked before anything else is answered or told. */
  get firstS(): number {
    const isBrisk = progressOf(this.#context.mcp) !== undefined || takesTasks(this.#context.mcp)
    return (isBrisk ? FIRST_PROGRESS_DELAY_MS : TIMEOUT_MS) / 1000
  }

  get elapsedMs(): number {
    return Math.round(performance.now() - this.#began)
  }

  /** Waits for the end of a task and tells the progress meanwhile; returns the task as it is then, ended or not. */
  async untilEnded(taskId: string): Promise<InferenceTask> {
    const { request, services, mcp } = this.#context
    const progress = progressOf(mcp)
    for (;;) {
      const task = await readInferenceTask(this.#context, taskId)
      const left = TIMEOUT_MS - this.elapsedMs
      if (isTerminalTask(task.status) || left <= 0 || request.disconnect.aborted) return task
      await progress?.(Math.round(this.elapsedMs / 1000), stepInWords(task))
      await services.taskWaiters.wait(
        taskId,
        progress ? Math.min(left, FIRST_PROGRESS_DELAY_MS) : left,
        request.signal,
      )
    }
  }
}
