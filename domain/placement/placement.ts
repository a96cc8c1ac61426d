import type { NodeEnvironment, NodeModel } from '../../schemas/nodes/node.ts'
import { drawBest, ScoreBuckets } from '../score-buckets.ts'
import { reachableMemory } from './gpu-capacity.ts'
import { hasBase, type IndexedNode, type PlacementNeed, rejectReason } from './need.ts'
import type { NodeSnapshot, Warmth } from './node-snapshot.ts'
import { type Band, bandOf, isAsleep, isLoading, serves, stageOf, warmthOf } from './node-snapshot.ts'
import { servedKey } from './served-profiles.ts'

export interface NodeChoice {
  readonly node_id: string
  readonly warmth: Warmth
  /** True if the model sleeps on the node, so that it is woken rather than loaded. */
  readonly asleep?: true
  readonly score: number
}

/** The verdict on a considered node; the reason is empty for the chosen one. */
export interface Verdict {
  readonly node_id: string
  readonly score: number | undefined
  readonly reason: string
}

export interface Placement {
  readonly chosen: NodeChoice | undefined
  /** Computed on demand, because it considers every node. */
  explain: () => Verdict[]
}

/**
 * Bands can't overlap (a loaded, busy node scores 80, an idle one with cached weights 60), so placement searches one
 * band after another.
 */
export const WARMTH_SCORE = { warm: 100, cached: 50, cold: 10 } as const satisfies Record<Warmth, number>
const BANDS = ['warm', 'asleep', 'cached', 'cold'] as const satisfies readonly Band[]
const ASLEEP_SCORE = 70
/** Points count for less on nodes where the model sleeps, so that the score stays between the neighboring bands. */
const ASLEEP_POINTS_SHARE = 0.3
const MEMORY_POINTS = 10
const LOAD_POINTS = 20

/** The free share of memory (0 to 10) minus the load (0 to 20), in whole points so that equal nodes tie. */
export function pointsOf(snapshot: NodeSnapshot, pending: number): number {
  const share = snapshot.memory_total_mb > 0 ? snapshot.memory_free_mb / snapshot.memory_total_mb : 0
  const busy = Math.max(snapshot.load, pending / (2 * Math.max(1, snapshot.cpus)))
  return Math.round(MEMORY_POINTS * clamp(share)) - Math.round(LOAD_POINTS * clamp(busy))
}

const clamp = (share: number) => Math.min(1, Math.max(0, share))

/** Returns the score of a node with these points for a model in this state. */
export const scoreOf = (model: NodeModel | undefined, points: number): number =>
  isAsleep(model)
    ? ASLEEP_SCORE + Math.round(10 * ASLEEP_POINTS_SHARE * points) / 10
    : WARMTH_SCORE[warmthOf(model)] + points

const EVERYBODY = ''
const SHARED_ONLY = [EVERYBODY]

const scopeOf = ({ sharing, account_id }: NodeSnapshot): string =>
  sharing === 'shared' ? EVERYBODY : account_id

/**
 * The key of a model or profile within a scope. Shared nodes use the key unchanged, which avoids allocating a string.
 */
const within = (scope: string, key: string): string => (scope === EVERYBODY ? key : `${scope} ${key}`)

/**
 * An ordered index, so that a decision examines few nodes. Per model, it lists the nodes that hold it; per runtime
 * profile that a node serves, all others. Both lists are sorted by points. Shared nodes are separate from dedicated ones. A report moves
 * only one node.
 */
export class PlacementIndex {
  readonly #nodes = new Map<string, IndexedNode>()
  /** Per model, the nodes on which it is loaded or cached. */
  readonly #holders: Record<Exclude<Band, 'cold'>, Buckets> = {
    warm: new Map(),
    asleep: new Map(),
    cached: new Map(),
  }
  readonly #byProfile: Buckets = new Map()
  /** Per account, the nodes dedicated to it. */
  readonly #dedicated = new Map<string, Set<IndexedNode>>()

  /** Replaces a node's report. */
  put(snapshot: NodeSnapshot): void {
    const models = new Map(snapshot.models.map((model) => [model.model_key, model]))
    const known = this.#nodes.get(snapshot.node_id)
    const pending = known?.pending ?? 0
    const now = {
      snapshot,
      scope: scopeOf(snapshot),
      models,
      pending,
      reach: reachableMemory(snapshot, models.values()),
      points: pointsOf(snapshot, pending),
    }
    const node: IndexedNode = known ?? now
    if (known) {
      this.#unlinkBut(known, now)
      Object.assign(known, now)
    } else {
      this.#nodes.set(snapshot.node_id, node)
    }
    this.#link(node)
  }

  /** Updates the state of one model between two reports. */
  setModel(nodeId: string, model: NodeModel): void {
    const node = this.#nodes.get(nodeId)
    if (!node) return
    const before = node.models.get(model.model_key)
    const key = within(node.scope, model.model_key)
    if (before) this.#leave(this.#band(before), key, node)
    node.models.set(model.model_key, model)
    enter(this.#band(model), key, node)
    node.reach = reachableMemory(node.snapshot, node.models.values())
  }

  remove(nodeId: string): void {
    const node = this.#nodes.get(nodeId)
    if (!node) return
    this.#unlinkBut(node)
    this.#nodes.delete(nodeId)
  }

  /** Counts a request that this gateway sends to a node (1) or that has ended (-1). */
  addPending(nodeId: string, change: 1 | -1): void {
    const node = this.#nodes.get(nodeId)
    if (!node) return
    node.pending = Math.max(0, node.pending + change)
    const points = pointsOf(node.snapshot, node.pending)
    if (points === node.points) return
    node.points = points
    this.#link(node)
  }

  /** Returns the best node for a request; among equal nodes, the less busy of two random ones. */
  place(need: PlacementNeed, random: () => number): Placement {
    const chosen = this.#choose(need, random)
    return { chosen, explain: () => this.#explain(need, chosen) }
  }

  /** Counts the nodes serving this account on which a model is warm or cached; `null` stands for any account. */
  count(modelKey: string, accountId: string | null = null): { warm: number; cached: number } {
    const total = { warm: 0, cached: 0 }
    for (const scope of this.#scopesOf(accountId)) {
      const key = within(scope, modelKey)
      total.warm += this.#holders.warm.get(key)?.size ?? 0
      total.cached += this.#holders.asleep.get(key)?.size ?? 0
      for (const { models } of [...(this.#holders.cached.get(key)?.best() ?? [])].flat())
        if (stageOf(models.get(modelKey)) === 'cached') total.cached += 1
    }
    return total
  }

  /** Returns the nodes that serve this account and have a model loaded. */
  loadedOn(modelKey: string, accountId: string): IndexedNode[] {
    const nodes: IndexedNode[] = []
    for (const scope of this.#scopesOf(accountId)) {
      const buckets = this.#holders.warm.get(within(scope, modelKey))
      if (buckets) for (const bucket of buckets.best()) nodes.push(...bucket)
    }
    return nodes
  }

  /** Returns whether a linked node is dedicated to this account. */
  hasOwnNode(accountId: string): boolean {
    return this.#dedicated.has(accountId)
  }

  node(nodeId: string): IndexedNode | undefined {
    return this.#nodes.get(nodeId)
  }

  /** Returns a model as its node last reported it. */
  model(nodeId: string, modelKey: string): NodeModel | undefined {
    return this.#nodes.get(nodeId)?.models.get(modelKey)
  }

  /** Returns the environments that a node reports. */
  environments(nodeId: string): readonly NodeEnvironment[] {
    return this.#nodes.get(nodeId)?.snapshot.environments ?? []
  }

  /** Returns why a node cannot serve this request; undefined when it can. */
  rejectReason(nodeId: string, need: PlacementNeed): string | undefined {
    const node = this.#nodes.get(nodeId)
    return node ? rejectReason(node, need) : 'is not connected'
  }

  /** Returns whether a linked node works for this account. */
  serves(nodeId: string, accountId: string | null): boolean {
    const node = this.#nodes.get(nodeId)
    return node !== undefined && serves(node.snapshot, accountId)
  }

  hardware(nodeId: string): NodeSnapshot['hardware'] | undefined {
    return this.#nodes.get(nodeId)?.snapshot.hardware
  }

  snapshots(): NodeSnapshot[] {
    return [...this.#nodes.values()].map(({ snapshot, models }) => ({
      ...snapshot,
      models: [...models.values()],
    }))
  }

  /** The scopes of the nodes that an account may use: the shared ones, and those dedicated to it. */
  #scopesOf(accountId: string | null): readonly string[] {
    return accountId !== null && this.#dedicated.has(accountId) ? [EVERYBODY, accountId] : SHARED_ONLY
  }

  #choose(need: PlacementNeed, random: () => number): NodeChoice | undefined {
    const { model_key, base_key, atLeast = 'cold' } = need
    if (typeof base_key === 'string') return this.#chooseForAdapter(need, base_key, random)
    for (const band of BANDS) {
      // The cold band has every node of the profile. Nodes that hold the model were considered in earlier bands.
      const isNew = ({ models }: IndexedNode) => band !== 'cold' || warmthOf(models.get(model_key)) === 'cold'
      const node = this.#draw(need, random, (scope) => this.#nodesOf(band, need, scope), isNew)
      if (node) return choiceOf(node, need)
      if (band === atLeast) return undefined
    }
    return undefined
  }

  /** Returns the best node for an adapter, which loads much faster than its base. */
  #chooseForAdapter(need: PlacementNeed, baseKey: string, random: () => number): NodeChoice | undefined {
    const { model_key: own, atLeast = 'cold' } = need
    const draw = (band: Band, key = own, isWanted?: (node: IndexedNode) => boolean) =>
      this.#draw(need, random, (scope) => this.#nodesOf(band, { ...need, model_key: key }, scope), isWanted)
    const loads =
      (key: string) =>
      ({ models }: IndexedNode) =>
        isLoading(models.get(key))
    const warm = draw('warm')
    if (warm || atLeast === 'warm') return warm && choiceOf(warm, need)
    const node =
      draw('cached', own, loads(own)) ??
      draw('warm', baseKey) ??
      draw('asleep', baseKey) ??
      draw('cached', baseKey, loads(baseKey)) ??
      draw('cached') ??
      draw('cached', baseKey) ??
      draw('cold')
    return node && choiceOf(node, need)
  }

  /** Draws the best of the nodes in all scopes of an account that can serve a request. */
  #draw(
    need: PlacementNeed,
    random: () => number,
    nodesIn: (scope: string) => ScoreBuckets<IndexedNode> | undefined,
    isWanted: (node: IndexedNode) => boolean = () => true,
  ): IndexedNode | undefined {
    const fits = (node: IndexedNode) => isWanted(node) && rejectReason(node, need) === undefined
    let best: IndexedNode | undefined
    for (const scope of this.#scopesOf(need.account_id)) {
      const nodes = nodesIn(scope)
      const drawn = nodes && drawBest(nodes, fits, lessBusy, random)
      best = best && drawn ? better(best, drawn) : (best ?? drawn)
    }
    return best
  }

  #nodesOf(band: Band, need: PlacementNeed, scope: string): ScoreBuckets<IndexedNode> | undefined {
    if (band === 'cold') return this.#byProfile.get(within(scope, servedKey(need)))
    return this.#holders[band].get(within(scope, need.model_key))
  }

  #explain(need: PlacementNeed, chosen: NodeChoice | undefined): Verdict[] {
    return [...this.#nodes.values()].map((node): Verdict => {
      const { node_id } = node.snapshot
      const reason = rejectReason(node, need)
      if (reason !== undefined) return { node_id, score: undefined, reason }
      const score = scoreOf(node.models.get(need.model_key), node.points)
      if (!chosen || node_id === chosen.node_id) return { node_id, score, reason: '' }
      const { base_key } = need
      const host = this.#nodes.get(chosen.node_id)
      if (
        typeof base_key === 'string' &&
        chosen.warmth !== 'warm' &&
        host &&
        hasBase(host, need) &&
        !hasBase(node, need)
      )
        return { node_id, score, reason: `does not have ${base_key}, its base, loaded` }
      const words =
        score < chosen.score
          ? `scores ${score}, below ${chosen.score}`
          : `scores ${score} too but was not picked in the random draw`
      return { node_id, score, reason: words }
    })
  }

  /** Returns the band for a model in this state. */
  #band(model: NodeModel): Buckets | undefined {
    const band = bandOf(model)
    return band === 'cold' ? undefined : this.#holders[band]
  }

  /** Inserts a node into the buckets of its points and models; unchanged positions cost little. */
  #link(node: IndexedNode): void {
    const { scope } = node
    for (const model of node.models.values()) enter(this.#band(model), within(scope, model.model_key), node)
    for (const profile of node.snapshot.profiles) enter(this.#byProfile, within(scope, profile), node)
    if (scope === EVERYBODY) return
    const dedicated = this.#dedicated.get(scope)
    if (dedicated) dedicated.add(node)
    else this.#dedicated.set(scope, new Set([node]))
  }

  /** Removes a node from the buckets to which its next report no longer belongs. */
  #unlinkBut(node: IndexedNode, next?: Pick<IndexedNode, 'models' | 'snapshot' | 'scope'>): void {
    const { scope } = node
    const after = next?.scope === scope ? next : undefined
    for (const model of node.models.values()) {
      const band = this.#band(model)
      const stays = after?.models.get(model.model_key)
      if (!stays || this.#band(stays) !== band) this.#leave(band, within(scope, model.model_key), node)
    }
    for (const profile of node.snapshot.profiles) {
      if (!after?.snapshot.profiles.includes(profile))
        this.#leave(this.#byProfile, within(scope, profile), node)
    }
    if (after) return
    const dedicated = this.#dedicated.get(scope)
    dedicated?.delete(node)
    if (dedicated?.size === 0) this.#dedicated.delete(scope)
  }

  #leave(band: Buckets | undefined, key: string, node: IndexedNode): void {
    const buckets = band?.get(key)
    buckets?.delete(node)
    if (buckets?.size === 0) band?.delete(key)
  }
}

type Buckets = Map<string, ScoreBuckets<IndexedNode>>

function enter(band: Buckets | undefined, key: string, node: IndexedNode): void {
  if (!band) return
  let buckets = band.get(key)
  if (!buckets) band.set(key, (buckets = new ScoreBuckets(-LOAD_POINTS, MEMORY_POINTS)))
  buckets.add(node, node.points)
}

/** Makes one decision over snapshots, for callers without an index. */
export function place(
  snapshots: Iterable<NodeSnapshot>,
  need: PlacementNeed,
  random: () => number,
): Placement {
  const index = new PlacementIndex()
  for (const snapshot of snapshots) index.put(snapshot)
  return index.place(need, random)
}

function choiceOf({ snapshot, models, points }: IndexedNode, { model_key }: PlacementNeed): NodeChoice {
  const model = models.get(model_key)
  return {
    node_id: snapshot.node_id,
    warmth: warmthOf(model),
    ...(isAsleep(model) && { asleep: true }),
    score: scoreOf(model, points),
  }
}

const better = (a: IndexedNode, b: IndexedNode): IndexedNode =>
  a.points === b.points ? lessBusy(a, b) : a.points > b.points ? a : b

const lessBusy = (a: IndexedNode, b: IndexedNode): IndexedNode =>
  a.pending < b.pending || (a.pending === b.pending && a.snapshot.load <= b.snapshot.load) ? a : b
