import { type AccountNeed, DispatchedTasks, type DispatchedTaskCount } from './dispatched-tasks.ts'
import { withUse } from './expected-load.ts'
import type { NodeSnapshot } from './node-snapshot.ts'
import { PlacementIndex } from './placement.ts'
import { servedKey } from './served-profiles.ts'

interface RunnableModel {
  readonly model_key: string
  readonly runtime_profile: string
  readonly engine?: string | null
  readonly memory_mb: number
  readonly tensor_parallel?: number | null
  readonly base_key?: string | null
}

/** Tasks of one account and model that no node could run. */
export interface WaitingModel extends RunnableModel {
  readonly account_id: string
  /** The number of waiting tasks, and how many were woken a moment ago. */
  readonly waiting: number
  readonly woken: number
}

/** Tasks of one account for a model that were sent to a node and haven't ended. */
export type DispatchedModel = DispatchedTaskCount & RunnableModel

/** How many of an account's tasks for a model to wake. */
export interface WakeUp {
  readonly account_id: string
  readonly model_key: string
  readonly count: number
}

export interface WakeUpOptions {
  /** Sorted by waiting time, longest first. */
  readonly waiting: readonly WaitingModel[]
  readonly held: readonly DispatchedModel[]
  readonly snapshots: readonly NodeSnapshot[]
  /** The maximum number of tasks to wake at once. */
  readonly most: number
  readonly now: Date
  readonly random: () => number
}

/**
 * Plans which tasks to wake: as many as the nodes have capacity for, longest-waiting first. The plan places each task
 * as its workflow will, after the tasks before it have used their capacity. Tasks woken a moment ago count as placed.
 */
export function planWakeUps({ waiting, most, now, random, ...nodes }: WakeUpOptions): WakeUp[] {
  const board = new Board(nodes)
  const plan: WakeUp[] = []
  let remaining = most
  for (const model of waiting) {
    let placed = 0
    const wanted = Math.min(model.waiting, model.woken + remaining)
    while (placed < wanted && board.place({ ...model, now: now.getTime() }, random)) placed++
    const count = Math.max(0, placed - model.woken)
    remaining -= count
    if (count > 0) plan.push({ account_id: model.account_id, model_key: model.model_key, count })
  }
  return plan
}

/** The expected state of the nodes once every task sent to them has arrived. */
class Board {
  readonly #index = new PlacementIndex()
  readonly #nodes = new Map<string, NodeSnapshot>()
  readonly #held = new DispatchedTasks([])
  /** Models that at least one node holds; such a node may be a better choice than any other. */
  readonly #known = new Set<string>()
  /**
   * By profile, number of GPUs and account, the smallest memory that no node has free. Memory only shrinks during a plan, so larger
   * requests can be skipped.
   */
  readonly #lacking = new Map<string, number>()

  constructor({ snapshots, held }: Pick<WakeUpOptions, 'snapshots' | 'held'>) {
    for (const snapshot of snapshots) this.#put(snapshot)
    for (const { node_id, tasks, ...model } of held) this.#take(node_id, model, tasks)
  }

  /**
   * Places one task and returns true. Returns false when no node can run it, or when every node that can is out of
   * slots.
   */
  place(need: AccountNeed, random: () => number): boolean {
    const { account_id, memory_mb, tensor_parallel, model_key, base_key } = need
    const owner = this.#index.hasOwnNode(account_id) ? account_id : ''
    const key = `${owner} ${servedKey(need)} ${tensor_parallel ?? ''}`
    const lacking = this.#lacking.get(key) ?? Number.POSITIVE_INFINITY
    // An adapter may need no memory of its own.
    const isKnown = this.#known.has(model_key) || typeof base_key === 'string'
    if (!isKnown && memory_mb >= lacking) return false

    const { chosen, free } = this.#held.place(this.#index, this.#nodes, need, random)
    if (!chosen && !isKnown) this.#lacking.set(key, memory_mb)
    if (free) this.#take(free.node_id, need, 1)
    return free !== undefined
  }

  #take(nodeId: string, need: RunnableModel & Pick<DispatchedModel, 'account_id'>, tasks: number): void {
    const snapshot = this.#nodes.get(nodeId)
    if (!snapshot) return
    this.#held.add({ node_id: nodeId, account_id: need.account_id, model_key: need.model_key, tasks })
    this.#index.addPending(nodeId, 1)

    const model = snapshot.models.find(({ model_key }) => model_key === need.model_key)
    if (!model || model.in_flight === 0) this.#put(withUse(snapshot, need, { in_flight: 1 }))
  }

  #put(snapshot: NodeSnapshot): void {
    this.#nodes.set(snapshot.node_id, snapshot)
    this.#index.put(snapshot)
    for (const { model_key } of snapshot.models) this.#known.add(model_key)
  }
}
