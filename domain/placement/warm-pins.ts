import type { NodeModel } from '../../schemas/nodes/node.ts'
import { withUse } from './expected-load.ts'
import type { PlacementNeed } from './need.ts'
import type { NodeSnapshot } from './node-snapshot.ts'
import { isLoading, warmthOf } from './node-snapshot.ts'
import { PlacementIndex, scoreOf } from './placement.ts'

/** A model that must be loaded on this many nodes. */
export interface WarmRequirement {
  readonly model_key: string
  /** The only account that may call the model; null when others may too. */
  readonly account_id: string | null
  readonly runtime_profile: string
  readonly engine?: string | null
  readonly memory_mb: number
  readonly tensor_parallel?: number | null
  /** The model in whose server this one is an adapter. A pin keeps it loaded as well. */
  readonly base_key?: string | null
  readonly nodes: number
  /** The number of copies that stay loaded: `nodes`, or one more that isn't pinned. */
  readonly copies: number
  /** True when copies beyond that number are unloaded, rather than left until other models need their memory. */
  readonly isScaled: boolean
}

/** A node on which a model is pinned. */
export interface WarmPin {
  readonly model_key: string
  readonly node_id: string
  /** The time since which the node has had no link. */
  readonly missing_since: Date | null
}

export type PinRef = Pick<WarmPin, 'model_key' | 'node_id'>

/** The changes that satisfy every want, and the wants that can't be satisfied. */
export interface PinPlan {
  readonly add: readonly PinRef[]
  readonly drop: readonly PinRef[]
  /** Pins whose node has lost its link, and pins whose node has a link again. */
  readonly missing: readonly PinRef[]
  readonly back: readonly PinRef[]
  /** Pins whose copy has to be unloaded. */
  readonly retire: readonly PinRef[]
  /** Copies that were to be unloaded and are either gone or needed again. */
  readonly gone: readonly PinRef[]
  /** By model, why it is pinned on fewer nodes than wanted. */
  readonly short: ReadonlyMap<string, string>
}

export interface PinSituation {
  readonly wants: readonly WarmRequirement[]
  readonly pins: readonly WarmPin[]
  /** Copies that have to be unloaded. */
  readonly retiring: readonly PinRef[]
  /** Nodes with a link. */
  readonly snapshots: readonly NodeSnapshot[]
  readonly now: Date
  readonly random: () => number
}

/** A gateway's links break briefly when it restarts. Other nodes load the model only after a longer absence. */
export const LOST_TIMEOUT_MS = 10_000

const samePlace = (a: PinRef) => (b: PinRef) => a.model_key === b.model_key && a.node_id === b.node_id

/**
 * Plans which nodes pin which models. Valid pins stay. New ones are placed like a cold request, with the memory of all
 * pins reserved. A node that is draining, is lost or can't load the model is replaced.
 */
export function planPins(situation: PinSituation): PinPlan {
  const { wants, pins, retiring } = situation
  const wanted = new Set(wants.map(({ model_key }) => model_key))
  const drop: PinRef[] = pins.filter(({ model_key }) => !wanted.has(model_key))
  const plan = {
    add: [] as PinRef[],
    drop,
    missing: [] as PinRef[],
    back: [] as PinRef[],
    retire: [] as PinRef[],
    gone: [] as PinRef[],
    short: new Map<string, string>(),
  }
  const board = new Board(situation)
  const pinsOf = Map.groupBy(pins, ({ model_key }) => model_key)
  const bases = new Set(wants.map(({ base_key }) => base_key))
  const isBase = ({ model_key }: WarmRequirement) => bases.has(model_key)
  // Bases come first, so that their adapters join them.
  const demands = wants
    .toSorted((a, b) => Number(isBase(b)) - Number(isBase(a)))
    .map((want) => demandOf(want, pinsOf.get(want.model_key) ?? [], situation, board))
  // Existing pins reserve their memory before any new pin is placed.
  for (const { want, stay } of demands) for (const { node_id } of stay) board.take(node_id, want)
  for (const demand of demands) {
    plan.missing.push(...demand.missing)
    plan.back.push(...demand.back)
    fill(demand, situation, board, plan)
  }
  const hosts = new Set(
    demands.flatMap(({ want, stay }) => stay.map(({ node_id }) => `${node_id} ${want.base_key}`)),
  )
  const isHost = ({ model_key, node_id }: PinRef) => hosts.has(`${node_id} ${model_key}`)
  const hosting = plan.retire.filter(isHost)
  plan.drop.push(...hosting)
  plan.retire = plan.retire.filter((pin) => !hosting.includes(pin))
  const scaled = new Set(wants.filter(({ isScaled }) => isScaled).map(({ model_key }) => model_key))
  // An absent node may still have the copy.
  const isGone = (pin: PinRef) =>
    !scaled.has(pin.model_key) || isHost(pin) || (board.has(pin.node_id) && !board.isHeld(pin))
  const unplanned = retiring.filter((place) => !plan.add.some(samePlace(place)))
  const [dropped, there] = [unplanned.filter(isGone), unplanned.filter((pin) => !isGone(pin))]
  plan.gone.push(...dropped, ...neededAgain(demands, there, board))
  return plan
}

/** Returns copies that were to be unloaded but are needed again. */
function neededAgain(demands: readonly PinDemand[], retiring: readonly PinRef[], board: Board): PinRef[] {
  const byModel = Map.groupBy(retiring, ({ model_key }) => model_key)
  return demands.flatMap(({ want }) => {
    const places = byModel.get(want.model_key) ?? []
    if (places.length === 0) return []
    const missing =
      want.copies -
      board.heldOn(want.model_key).filter((id) => !places.some(({ node_id }) => node_id === id)).length
    return places.slice(0, Math.max(0, missing))
  })
}

/** The current state of one want. */
interface PinDemand {
  readonly want: WarmRequirement
  readonly own: readonly WarmPin[]
  readonly stay: PinRef[]
  /** Nodes that currently can't load the model but may later. */
  readonly failing: readonly PinRef[]
  readonly missing: readonly PinRef[]
  readonly back: readonly PinRef[]
}

function demandOf(
  want: WarmRequirement,
  pins: readonly WarmPin[],
  { now }: Pick<PinSituation, 'now'>,
  board: Board,
): PinDemand {
  const here = pins.filter(({ node_id }) => board.has(node_id))
  const away = pins.filter(({ node_id }) => !board.has(node_id))
  const isLost = ({ missing_since: since }: WarmPin) =>
    since !== null && now.getTime() - since.getTime() >= LOST_TIMEOUT_MS
  const need = { ...want, now: now.getTime() }
  const fits = ({ node_id }: WarmPin) => board.index.rejectReason(node_id, need) === undefined
  const sound = [...here.filter(fits), ...away.filter((pin) => !isLost(pin))]
  return {
    want,
    own: pins,
    stay: sound.toSorted((a, b) => board.rank(b) - board.rank(a)).slice(0, want.nodes),
    // A draining node won't load the model again; any other fault may pass.
    failing: here.filter((pin) => !fits(pin) && !board.isDraining(pin.node_id)),
    missing: away.filter(({ missing_since: since }) => since === null),
    back: here.filter(({ missing_since: since }) => since !== null),
  }
}

interface PinDecisions {
  readonly add: PinRef[]
  readonly drop: PinRef[]
  readonly retire: PinRef[]
  readonly short: Map<string, string>
}

/** Finds nodes until the want is satisfied. */
function fill(
  { want, own, stay, failing }: PinDemand,
  { now, random }: PinSituation,
  board: Board,
  { add, drop, retire, short }: PinDecisions,
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
    const pin = { model_key, node_id: chosen.node_id }
    exclude.add(pin.node_id)
    board.take(pin.node_id, want)
    add.push(pin)
    stay.push(pin)
  }
  // A node that may still load the model is better than none.
  stay.push(...failing.slice(0, nodes - stay.length))
  const surplus = own.filter((pin) => !stay.some(samePlace(pin)))
  const loaded = want.isScaled ? surplus.filter((pin) => board.isHeld(pin)) : []
  const unloaded = loaded.slice(Math.max(0, want.copies - stay.length))
  retire.push(...unloaded)
  drop.push(...surplus.filter((pin) => !unloaded.includes(pin)))
}

/** The expected state of the nodes after the decisions so far. */
class Board {
  readonly index = new PlacementIndex()
  readonly #nodes = new Map<string, NodeSnapshot>()

  constructor({ snapshots, pins, wants }: PinSituation) {
    const wanted = new Set(wants.map(({ model_key }) => model_key))
    const placeOf = ({ model_key, node_id }: PinRef) => `${node_id} ${model_key}`
    const wantedPins = new Set(pins.filter(({ model_key }) => wanted.has(model_key)).map(placeOf))
    for (const snapshot of snapshots) {
      const isPinned = ({ model_key }: NodeModel) =>
        wantedPins.has(placeOf({ model_key, node_id: snapshot.node_id }))
      const models = snapshot.models.map((model) => (isPinned(model) ? { ...model, pinned: true } : model))
      this.#put({ ...snapshot, models })
    }
  }

  has(nodeId: string): boolean {
    return this.#nodes.has(nodeId)
  }

  /** Returns whether a node that isn't draining has a model loaded or is loading it. */
  isHeld({ node_id, model_key }: PinRef): boolean {
    if (!this.has(node_id) || this.isDraining(node_id)) return false
    const model = this.index.model(node_id, model_key)
    return warmthOf(model) === 'warm' || isLoading(model)
  }

  /** Returns the nodes that have a model loaded or are loading it. */
  heldOn(modelKey: string): string[] {
    return [...this.#nodes.keys()].filter((node_id) => this.isHeld({ node_id, model_key: modelKey }))
  }

  isDraining(nodeId: string): boolean {
    return this.#nodes.get(nodeId)?.draining ?? false
  }

  /** Pins with a higher rank stay when fewer nodes are wanted. */
  rank({ node_id, model_key }: PinRef): number {
    return this.has(node_id) ? scoreOf(this.index.model(node_id, model_key), 0) : 0
  }

  /** Returns, for each other node, why it cannot hold the model. */
  explain(need: PlacementNeed, stay: readonly PinRef[]): string {
    const others = [...this.#nodes.keys()].filter((id) => !stay.some(({ node_id }) => node_id === id))
    if (others.length === 0) return 'no other node is connected'
    return others
      .map((id) => `node ${id} ${this.index.rejectReason(id, need) ?? 'was just assigned the model'}`)
      .join('; ')
  }

  /** Reserves the memory of a pinned model, or of the base of a pinned adapter, on a node. */
  take(nodeId: string, want: WarmRequirement): void {
    const snapshot = this.#nodes.get(nodeId)
    if (snapshot) this.#put(withUse(snapshot, want, { pinned: true }))
  }

  #put(snapshot: NodeSnapshot): void {
    this.#nodes.set(snapshot.node_id, snapshot)
    this.index.put(snapshot)
  }
}
