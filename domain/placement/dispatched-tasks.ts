import { getOrThrow } from '../at.ts'
import { isToolKey } from '../tools/catalog.ts'
import type { PlacementNeed } from './need.ts'
import { PLACED_SLOTS, WARM_SLOTS } from './node-queues.ts'
import { type NodeSnapshot, warmthOf } from './node-snapshot.ts'
import type { NodeChoice, PlacementIndex, Verdict } from './placement.ts'

/** The slots of a node's own queue that accounts share; the others are reserved for loads. */
export const sharedOf = (slots: number): number => (3 * slots) / 4

/**
 * Returns whether an account may take another shared slot: it may while it holds fewer than twice the number of free
 * slots. One account alone gets half of the node's slots, which leaves some for accounts that come later.
 */
export const hasShare = (accountTasks: number, taken: number, shared: number): boolean =>
  accountTasks < 2 * (shared - taken)

/** Tasks of one account for a model that were sent to a node and haven't ended. */
export interface DispatchedTaskCount {
  readonly node_id: string
  readonly account_id: string
  readonly model_key: string
  readonly tasks: number
}

/** A request from an account. */
export type AccountNeed = PlacementNeed & { readonly account_id: string }

/** The placement of a task: the best node, and the best node with a free slot. */
export interface SlotPlacement {
  chosen: NodeChoice | undefined
  free: NodeChoice | undefined
  explain: () => Verdict[]
}

/**
 * Returns whether a node polls a queue for this model. Nodes don't poll one for a tool, which starts fresh for each
 * request anyway, or for a model that is only on disk, because there may be hundreds of those.
 */
export function hasWarmQueue({ sharing, models }: NodeSnapshot, modelKey: string): boolean {
  const model = models.find(({ model_key }) => model_key === modelKey)
  return sharing === 'shared' && !isToolKey(modelKey) && warmthOf(model) === 'warm' && !model?.unpolled
}

/**
 * Counts the tasks that were sent to nodes. We never send a node more than it has slots for, because it would only
 * return them immediately.
 */
export class DispatchedTasks {
  /** The tasks of each account, by node and model. */
  readonly #held = new Map<string, Map<string, Map<string, number>>>()

  constructor(held: Iterable<DispatchedTaskCount>) {
    for (const one of held) this.add(one)
  }

  add({ node_id, account_id, model_key, tasks }: DispatchedTaskCount): void {
    let models = this.#held.get(node_id)
    if (!models) this.#held.set(node_id, (models = new Map()))
    let accounts = models.get(model_key)
    if (!accounts) models.set(model_key, (accounts = new Map()))
    accounts.set(account_id, (accounts.get(account_id) ?? 0) + tasks)
  }

  /**
   * Prefers a node with a free slot, but only among nodes of equal warmth, because placement considers warmth first.
   */
  place(
    index: PlacementIndex,
    nodes: ReadonlyMap<string, NodeSnapshot>,
    need: AccountNeed,
    random: () => number,
  ): SlotPlacement {
    const { chosen, explain } = index.place(need, random)
    const isFull = (nodeId: string) => !this.hasSlot(getOrThrow(nodes, nodeId), need)
    if (!chosen || !isFull(chosen.node_id)) return { chosen, free: chosen, explain }
    const full = new Set([...nodes.keys()].filter(isFull))
    const { chosen: free } = index.place({ ...need, exclude: full, atLeast: chosen.warmth }, random)
    return { chosen, free, explain }
  }

  /**
   * Returns whether a node has a slot for another task of an account. The slot is in the queue of the loaded model, or
   * in the account's share of the node's own queue. Tasks of a loaded model beyond its queue use the node's own queue.
   */
  hasSlot(
    node: NodeSnapshot,
    { account_id, model_key }: Pick<DispatchedTaskCount, 'account_id' | 'model_key'>,
  ): boolean {
    let [accountTasks, taken, hasRoom] = [0, 0, hasWarmQueue(node, model_key)]
    for (const [key, accounts] of this.#held.get(node.node_id) ?? []) {
      const tasks = accounts.values().reduce((sum, count) => sum + count, 0)
      const placed = Math.max(0, tasks - (hasWarmQueue(node, key) ? WARM_SLOTS : 0))
      if (key === model_key && tasks >= WARM_SLOTS) hasRoom = false
      taken += placed
      accountTasks += (placed * (accounts.get(account_id) ?? 0)) / tasks
    }
    return hasRoom || hasShare(accountTasks, taken, sharedOf(PLACED_SLOTS))
  }
}
