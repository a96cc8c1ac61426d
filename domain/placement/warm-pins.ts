import type { NodeModel } from '../../schemas/node.ts'
import { withoutRoom } from './gpu-room.ts'
import type { NodeSnapshot } from './node-snapshot.ts'
import { warmthOf } from './node-snapshot.ts'
import { PlacementIndex, type PlacementNeed, WARMTH_SCORE } from './placement.ts'

/** A model that is to be loaded on so many nodes at all times. */
export interface WarmWant {
  readonly model_key: string
  /** The account that alone may call it; null when others may. */
  readonly account_id: string | null
  readonly runtime_profile: string
  readonly memory_mb: number
  readonly nodes: number
}

/** A node that keeps a model loaded. */
export interface WarmPin {
  readonly model_key: string
  readonly node_id: string
  /** Since when the node has had no link. */
  readonly missing_since: Date | null
}

export type PinPlace = Pick<WarmPin, 'model_key' | 'node_id'>

/** What has to change so that every want is met, and what cannot be met. */
export interface PinPlan {
  readonly add: readonly PinPlace[]
  readonly drop: readonly PinPlace[]
  /** Nodes that have lost their link, and those that have it back. */
  readonly missing: readonly PinPlace[]
  readonly back: readonly PinPlace[]
  /** By model: why it is kept on fewer nodes than wanted. */
  readonly short: ReadonlyMap<string, string>
}

export interface PinSituation {
  readonly wants: readonly WarmWant[]
  readonly pins: readonly WarmPin[]
  /** Nodes that have a link. */
  readonly snapshots: readonly NodeSnapshot[]
  readonly now: Date
  readonly random: () => number
}

/** A gateway that restarts takes its links along for a moment: only a longer absence makes others load the model. */
export const LOST_AFTER_MS = 10_000

const samePlace = (a: PinPlace) => (b: PinPlace) => a.model_key === b.model_key && a.node_id === b.node_id

/**
 * Which nodes keep which models loaded: those that do already stay, others are placed as a cold request would be, with
 * the room of what is kept counted as taken. A node that drains, is lost, or cannot load the model gives its part to
 * another one.
 */
export function planPins(situation: PinSituation): PinPlan {
  const { wants, pins } = situation
  const wanted = new Set(wants.map(({ model_key }) => model_key))
  const drop: PinPlace[] = pins.filter(({ model_key }) => !wanted.has(model_key))
  const plan = {
    add: [] as PinPlace[],
    drop,
    missing: [] as PinPlace[],
    back: [] as PinPlace[],
    short: new Map<string, string>(),
  }
  const board = new Board(situation)
  const standings = wants.map((want) => standingOf(want, situation, board))
  // Whoever keeps a model goes on doing so, before anything new is placed.
  for (const { want, stay } of standings) for (const { node_id } of stay) board.take(node_id, want)
  for (const standing of standings) {
    plan.missing.push(...standing.missing)
    plan.back.push(...standing.back)
    fill(standing, situation, board, plan)
  }
  return plan
}

/** How one want is met so far. */
interface Standing {
  readonly want: WarmWant
  readonly own: readonly WarmPin[]
  readonly stay: PinPlace[]
  /** Nodes that cannot load it now and may do so later. */
  readonly failing: readonly PinPlace[]
  readonly missing: readonly PinPlace[]
  readonly back: readonly PinPlace[]
}

function standingOf(want: WarmWant, { pins, now }: PinSituation, board: Board): Standing {
  const own = pins.filter(({ model_key }) => model_key === want.model_key)
  const here = own.filter(({ node_id }) => board.has(node_id))
  const away = own.filter(({ node_id }) => !board.has(node_id))
  const isLost = ({ missing_since: since }: WarmPin) =>
    since !== null && now.getTime() - since.getTime() >= LOST_AFTER_MS
  const need = { ...want, now: now.getTime() }
  const fits = ({ node_id }: WarmPin) => board.index.rejectReason(node_id, need) === undefined
  const sound = [...here.filter(fits), ...away.filter((pin) => !isLost(pin))]
  return {
    want,
    own,
    stay: sound.toSorted((a, b) => board.rank(b) - board.rank(a)).slice(0, want.nodes),
    // What drains will not take it back; anything else may pass.
    failing: here.filter((pin) => !fits(pin) && !board.isDraining(pin.node_id)),
    missing: away.filter(({ missing_since: since }) => since === null),
    back: here.filter(({ missing_since: since }) => since !== null),
  }
}

interface Decisions {
  readonly add: PinPlace[]
  readonly drop: PinPlace[]
  readonly short: Map<string, string>
}

/** Finds nodes for what a want still lacks. */
function fill(
  { want, own, stay, failing }: Standing,
  { now, random }: PinSituation,
  board: Board,
  { add, drop, short }: Decisions,
): void {
  const { model_key, nodes } = want
  const need: PlacementNeed = { ...want, now: now.getTime() }
  const exclude = new Set(own.map(({ node_id }) => node_id))
  while (stay.length < nodes) {
    const { chosen } = board.index.place({ ...need, exclude }, random)
    if (!chosen) {
      short.set(model_key, board.explain(need, stay))
      break
    }
    const place = { model_key, node_id: chosen.node_id }
    exclude.add(place.node_id)
    board.take(place.node_id, want)
    add.push(place)
    stay.push(place)
  }
  // Better one that may yet succeed than none.
  stay.push(...failing.slice(0, nodes - stay.length))
  drop.push(...own.filter((pin) => !stay.some(samePlace(pin))))
}

/** The nodes as they will be once they have what was decided so far. */
class Board {
  readonly index = new PlacementIndex()
  readonly #nodes = new Map<string, NodeSnapshot>()

  constructor({ snapshots, pins, wants }: PinSituation) {
    const wanted = new Set(wants.map(({ model_key }) => model_key))
    const kept = pins.filter(({ model_key }) => wanted.has(model_key))
    for (const snapshot of snapshots) {
      const isKept = ({ model_key }: NodeModel) =>
        kept.some((pin) => samePlace(pin)({ model_key, node_id: snapshot.node_id }))
      const models = snapshot.models.map((model) => (isKept(model) ? { ...model, pinned: true } : model))
      this.#put({ ...snapshot, models })
    }
  }

  has(nodeId: string): boolean {
    return this.#nodes.has(nodeId)
  }

  isDraining(nodeId: string): boolean {
    return this.#nodes.get(nodeId)?.draining ?? false
  }

  /** The higher, the rather a node stays when fewer are wanted. */
  rank({ node_id, model_key }: PinPlace): number {
    return this.has(node_id) ? WARMTH_SCORE[warmthOf(this.index.model(node_id, model_key))] : 0
  }

  /** In words, why no other node can keep a model. */
  explain(need: PlacementNeed, stay: readonly PinPlace[]): string {
    const others = [...this.#nodes.keys()].filter((id) => !stay.some(({ node_id }) => node_id === id))
    if (others.length === 0) return 'no other node is connected'
    return others
      .map((id) => `node ${id} ${this.index.rejectReason(id, need) ?? 'has just got it'}`)
      .join('; ')
  }

  /** Counts a model as kept on a node: nobody else gets its room. */
  take(nodeId: string, want: WarmWant): void {
    const { model_key, memory_mb } = want
    const snapshot = this.#nodes.get(nodeId)
    if (!snapshot) return
    const model = snapshot.models.find((one) => one.model_key === model_key)
    const others = snapshot.models.filter((one) => one !== model)
    const isHeld = model !== undefined && (warmthOf(model) === 'warm' || model.state === 'loading_model')
    if (isHeld) return this.#put({ ...snapshot, models: [...others, { ...model, pinned: true }] })
    const { snapshot: after, gpus } = withoutRoom(snapshot, want)
    this.#put({
      ...after,
      models: [...others, { model_key, state: 'loading_model', in_flight: 0, memory_mb, gpus, pinned: true }],
    })
  }

  #put(snapshot: NodeSnapshot): void {
    this.#nodes.set(snapshot.node_id, snapshot)
    this.index.put(snapshot)
  }
}
