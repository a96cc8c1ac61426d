import { isToolKey } from '../tools/catalog.ts'
import { PLACED_SLOTS, WARM_SLOTS } from './node-queues.ts'
import { type NodeSnapshot, warmthOf } from './node-snapshot.ts'
import type { Chosen, PlacementIndex, PlacementNeed, Verdict } from './placement.ts'

/** The slots of a node's own queue that accounts share; the others are left to loads. */
export const sharedOf = (slots: number): number => (3 * slots) / 4

/**
 * Returns whether an account gets one more of the shared slots: while it has fewer than twice those that are free. That is
 * half of all slots for one account alone, and leaves some for accounts that come later.
 */
export const hasShare = (own: number, taken: number, shared: number): boolean => own < 2 * (shared - taken)

/** Tasks of one account for a model that were sent to a node and have not ended. */
export interface HeldTasksOf {
  readonly node_id: string
  readonly account_id: string
  readonly model_key: string
  readonly tasks: number
}

/** A request of an account. */
export type AccountNeed = PlacementNeed & { readonly account_id: string }

/** The placement of a task: the best node, and the best one with a slot for it. */
export interface SlotPlacement {
  chosen: Chosen | undefined
  free: Chosen | undefined
  explain: () => Verdict[]
}

/**
 * Returns whether a node polls a queue of its own for a model. Nodes poll none for a tool, which starts anew for each
 * request wherever it runs, and none for the models on their disk, of which there may be hundreds.
 */
export function hasWarmQueue({ sharing, models }: NodeSnapshot, modelKey: string): boolean {
  const model = models.find(({ model_key }) => model_key === modelKey)
  return sharing === 'shared' && !isToolKey(modelKey) && warmthOf(model) === 'warm' && !model?.unpolled
}

/**
 * The tasks that were sent to nodes. More than a node has slots for are not sent, because it would give them back at once,
 * again and again.
 */
export class HeldTasks {
  /** By node and model, the tasks of each account. */
  readonly #held = new Map<string, Map<string, Map<string, number>>>()

  constructor(held: Iterable<HeldTasksOf>) {
    for (const one of held) this.add(one)
  }

  add({ node_id, account_id, model_key, tasks }: HeldTasksOf): void {
    let models = this.#held.get(node_id)
    if (!models) this.#held.set(node_id, (models = new Map()))
    let accounts = models.get(model_key)
    if (!accounts) models.set(model_key, (accounts = new Map()))
    accounts.set(account_id, (accounts.get(account_id) ?? 0) + tasks)
  }

  /** Skips a node without a slot only for another of the same warmth, because placement goes by warmth first. */
  place(
    index: PlacementIndex,
    nodes: ReadonlyMap<string, NodeSnapshot>,
    need: AccountNeed,
    random: () => number,
  ): SlotPlacement {
    const { chosen, explain } = index.place(need, random)
    const isFull = (nodeId: string) => !this.hasSlot(nodes.get(nodeId)!, need)
    if (!chosen || !isFull(chosen.node_id)) return { chosen, free: chosen, explain }
    const full = new Set([...nodes.keys()].filter(isFull))
    const { chosen: free } = index.place({ ...need, exclude: full, atLeast: chosen.warmth }, random)
    return { chosen, free, explain }
  }

  /**
   * Returns whether a node has a slot for one more task of an account: one of the queue of the loaded model, or one of the
   * account's share of the node's own queue. The tasks of a loaded model beyond its queue are on the node's own.
   */
  hasSlot(
    node: NodeSnapshot,
    { account_id, model_key }: Pick<HeldTasksOf, 'account_id' | 'model_key'>,
  ): boolean {
    let [own, taken, hasRoom] = [0, 0, hasWarmQueue(node, model_key)]
    for (const [key, accounts] of this.#held.get(node.node_id) ?? []) {
      const tasks = accounts.values().reduce((sum, count) => sum + count, 0)
      const placed = Math.max(0, tasks - (hasWarmQueue(node, key) ? WARM_SLOTS : 0))
      if (key === model_key && tasks >= WARM_SLOTS) hasRoom = false
      taken += placed
      own += (placed * (accounts.get(account_id) ?? 0)) / tasks
    }
    return hasRoom || hasShare(own, taken, sharedOf(PLACED_SLOTS))
  }
}
