import type { Graph } from '../../../domain/cohorts/graph.ts'
import { cheapestAble, type OrderInput } from '../../../domain/cohorts/objective.ts'
import { planGraph, type PlannedGraph } from '../../../domain/cohorts/plan-graph.ts'
import type { PlanInput } from '../../../domain/cohorts/plan-input.ts'
import { temporaryError } from '../../../domain/errors.ts'
import { QueueFullError } from '../../../platform/async/fair-semaphore.ts'
import { TaskThread, TaskTimeout } from '../../../platform/async/task-thread.ts'

export type PlannerTask = { kind: 'plan'; input: PlanInput } | { kind: 'order'; input: OrderInput }
export type PlannerResult = PlannedGraph | Graph

/**
 * The number of stages times the number of nodes and edges. Up to this product, a plan takes less than 5 ms of CPU
 * (measured: 2 ms for 10 stages with 20 edges on 5 nodes). Copying such a plan to a worker thread and starting that
 * thread would cost more.
 */
const MAX_INLINE_WORK = 300
/** The largest graph takes 0.4 s on 1,000 nodes; a machine under load may need much longer. */
const PLAN_TIMEOUT_MS = 10_000
/** A run plans inside its transaction, which must not wait long. */
const MAX_WAIT_MS = 10_000
const IDLE_TIMEOUT_MS = 60_000
const HEAP_MB = 256
const MAX_WAITING = 128
const RETRY_AFTER_S = 2

/** The account that a graph is planned for; `signal` ends its wait. */
export interface PlanOwner {
  accountId: string
  signal: AbortSignal
}

/** Plans large graphs off the event loop, which they would block for up to half a second. */
export class Planner implements AsyncDisposable {
  readonly #thread: TaskThread<PlannerTask, PlannerResult>

  constructor({ timeoutMs = PLAN_TIMEOUT_MS } = {}) {
    this.#thread = new TaskThread(new URL('./start-thread.mjs', import.meta.url), {
      timeoutMs,
      idleMs: IDLE_TIMEOUT_MS,
      heapMb: HEAP_MB,
      maxWaiting: MAX_WAITING,
    })
  }

  /** Throws a 503 if planning takes too long or too many plans are queued. */
  async plan(input: PlanInput, owner: PlanOwner): Promise<PlannedGraph> {
    const { stages, edges } = input.graph
    if (stages.length * (input.nodes.length + edges.length) <= MAX_INLINE_WORK) return planGraph(input)
    return (await this.#run({ kind: 'plan', input }, owner)) as PlannedGraph
  }

  /** Moves each stage's cheapest endpoint to the front, as `cheapestAble` does; throws like `plan`. */
  async order(input: OrderInput, owner: PlanOwner): Promise<Graph> {
    const candidates = [...input.fallbacks.values()].reduce((sum, { length }) => sum + length, 0)
    if ((input.models.size + candidates) * input.nodes.length <= MAX_INLINE_WORK) return cheapestAble(input)
    return (await this.#run({ kind: 'order', input }, owner)) as Graph
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#thread[Symbol.asyncDispose]()
  }

  async #run(task: PlannerTask, { accountId, signal }: PlanOwner): Promise<PlannerResult> {
    const wait = AbortSignal.timeout(MAX_WAIT_MS)
    try {
      return await this.#thread.run(accountId, task, AbortSignal.any([signal, wait]))
    } catch (err) {
      if (err instanceof TaskTimeout)
        throw temporaryError(
          'no_capacity',
          'planning this graph takes too long; use fewer stages and edges, or try again',
          RETRY_AFTER_S,
          { cause: err },
        )
      if (err instanceof QueueFullError || (wait.aborted && err === wait.reason))
        throw temporaryError('no_capacity', 'too many graphs are being planned; try again', RETRY_AFTER_S)
      throw err
    }
  }
}
