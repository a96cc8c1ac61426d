import type { NodeModel } from '../../schemas/node.ts'
import { withoutRoom } from './gpu-room.ts'
import { PLACED_SLOTS } from './node-queues.ts'
import { type NodeSnapshot, warmthOf } from './node-snapshot.ts'
import { type Chosen, PlacementIndex, type PlacementNeed } from './placement.ts'

interface RunnableModel {
  readonly model_key: string
  readonly runtime_profile: string
  readonly memory_mb: number
}

/** Tasks of one account that no node could take. */
export interface WaitingModel extends RunnableModel {
  readonly account_id: string
  /** How many wait, and how many of them were woken a moment ago. */
  readonly waiting: number
  readonly woken: number
}

/** Tasks that have been sent to a node and are not done. */
export interface HeldModel extends RunnableModel {
  readonly node_id: string
  readonly tasks: number
}

/** So many tasks of an account that wait for a model are to be woken. */
export interface Waking {
  readonly account_id: string
  readonly model_key: string
  readonly count: number
}

export interface WakingSituation {
  /** Who has waited longest comes first. */
  readonly waiting: readonly WaitingModel[]
  readonly held: readonly HeldModel[]
  readonly snapshots: readonly NodeSnapshot[]
  /** As many are woken at once. */
  readonly most: number
  readonly now: Date
  readonly random: () => number
}

/**
 * Whom to wake: as many as nodes have room for, models in the order in which tasks wait for them. Each is placed as its
 * workflow will place it, with the room of those before it taken. Those that were woken a moment ago have theirs already.
 */
export function planWaking({ waiting, most, now, random, ...standing }: WakingSituation): Waking[] {
  const board = new Board(standing)
  const plan: Waking[] = []
  let left = most
  for (const model of waiting) {
    let placed = 0
    const wanted = Math.min(model.waiting, model.woken + left)
    while (placed < wanted && board.place({ ...model, now: now.getTime() }, random)) placed++
    const count = Math.max(0, placed - model.woken)
    left -= count
    if (count > 0) plan.push({ account_id: model.account_id, model_key: model.model_key, count })
  }
  return plan
}

/** The nodes as they will be once everything that was sent to them so far is there. */
class Board {
  readonly #index = new PlacementIndex()
  readonly #nodes = new Map<string, NodeSnapshot>()
  readonly #tasks = new Map<string, number>()
  readonly #full = new Set<string>()
  /** Models that some node knows, by which it may be fitter than others. */
  readonly #known = new Set<string>()
  /** By profile and by whose nodes it may have: the least memory for which no node has room. Room only gets less. */
  readonly #lacking = new Map<string, number>()

  constructor({ snapshots, held }: Pick<WakingSituation, 'snapshots' | 'held'>) {
    for (const snapshot of snapshots) this.#put(snapshot)
    for (const { node_id, tasks, ...model } of held) this.#take(node_id, model, tasks)
  }

  /** Sends one task to the node that placement picks; false when none can take it or has a slot for it. */
  place(need: PlacementNeed, random: () => number): boolean {
    const { account_id, runtime_profile, memory_mb, model_key } = need
    const owner = account_id !== null && this.#index.hasOwnNode(account_id) ? account_id : ''
    const key = `${owner} ${runtime_profile}`
    const lacking = this.#lacking.get(key) ?? Number.POSITIVE_INFINITY
    const isKnown = this.#known.has(model_key)
    if (!isKnown && memory_mb >= lacking) return false

    const chosen = this.#choose(need, random)
    if (chosen) this.#take(chosen.node_id, need, 1)
    else if (!isKnown) this.#lacking.set(key, memory_mb)
    return chosen !== undefined
  }

  /** A node without a slot is passed over only for one that is as warm: placement goes by warmth first. */
  #choose(need: PlacementNeed, random: () => number): Chosen | undefined {
    const { chosen } = this.#index.place(need, random)
    if (!chosen || !this.#full.has(chosen.node_id)) return chosen
    return this.#index.place({ ...need, exclude: this.#full, atLeast: chosen.warmth }, random).chosen
  }

  #take(nodeId: string, need: RunnableModel, tasks: number): void {
    const snapshot = this.#nodes.get(nodeId)
    if (!snapshot) return
    const held = (this.#tasks.get(nodeId) ?? 0) + tasks
    this.#tasks.set(nodeId, held)
    if (held >= PLACED_SLOTS) this.#full.add(nodeId)
    this.#index.addPending(nodeId, 1)

    const model = snapshot.models.find(({ model_key }) => model_key === need.model_key)
    if (model && model.in_flight > 0) return
    const others = snapshot.models.filter((one) => one !== model)
    const put = (after: NodeSnapshot, busy: NodeModel) =>
      this.#put({ ...after, models: [...others, { ...busy, in_flight: 1 }] })
    if (model && warmthOf(model) === 'warm') return put(snapshot, { ...model, state: 'running' })
    if (model?.state === 'loading_model' || model?.state === 'downloading_model') return put(snapshot, model)
    const { model_key, memory_mb } = need
    const { snapshot: after, gpus } = withoutRoom(snapshot, need)
    put(after, { model_key, state: 'loading_model', in_flight: 1, memory_mb, gpus })
  }

  #put(snapshot: NodeSnapshot): void {
    this.#nodes.set(snapshot.node_id, snapshot)
    this.#index.put(snapshot)
    for (const { model_key } of snapshot.models) this.#known.add(model_key)
  }
}
