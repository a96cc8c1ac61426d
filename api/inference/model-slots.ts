import { at } from '../../domain/at.ts'
import { preferredNode } from '../../domain/chat/affinity.ts'
import type { TokenCounts } from '../../domain/chat/chat.ts'
import { ApiError, temporaryError } from '../../domain/errors.ts'
import { FairQueue, type Requester, type Ticket } from '../../domain/fair-queue.ts'
import type { CopyDemand } from '../../domain/placement/copies.ts'
import { type IndexedNode, type PlacementNeed, rejectReason } from '../../domain/placement/need.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { ServiceTier } from '../../schemas/api-key.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import type { AbortSource } from '../gateway/links/link-request.ts'
import type { NodeLinks } from '../gateway/links/node-links.ts'

/** A request for a loaded model. */
export interface SlotRequest extends Omit<PlacementNeed, 'account_id' | 'atLeast' | 'now'> {
  readonly account_id: string
  readonly key_id: string
  readonly tier?: ServiceTier | undefined
  /** Returns a key shared by requests with the same prefix. Called only if several nodes have the model. */
  readonly affinity?: (() => string) | undefined
  /** Aborts the wait for a slot. */
  readonly signal: AbortSource
}

/** A slot for a loaded model on a node, freed on disposal. */
export interface ModelSlot extends Disposable {
  readonly nodeId: string
  /** Frees the slot; safe to repeat. `tokens` is the response's usage, if known. */
  end(tokens?: TokenCounts): void
}

export interface ModelSlotsOptions {
  links: Pick<NodeLinks, 'placement' | 'onModel' | 'gateways'>
  catalog: Pick<Catalog, 'profile'>
  /** This gateway's address. */
  baseUrl: string
  /** Called when a request has stopped waiting for a slot. */
  onWaited?: (modelKey: string, ms: number) => void
}

interface Waiter {
  readonly request: SlotRequest
  readonly resolve: (slot: ModelSlot | undefined) => void
  readonly reject: (err: unknown) => void
}

interface ModelQueue {
  readonly modelKey: string
  readonly runtimeProfile: string
  readonly waiting: FairQueue<Waiter>
  /** This gateway's requests in flight, by node. */
  readonly inFlight: Map<string, number>
  /** Moving averages over the model's requests. */
  cost: number
  /** 0 until the first request has ended. */
  serviceMs: number
  usedAt: number
  /** Sums over the samples since the last `takeDemand`. */
  samples: number
  inFlightSum: number
  waitingSum: number
  isUsed: boolean
  /** True if the last `takeDemand` reported non-zero use. */
  isReported: boolean
}

/** A model's use since its last measurement; see `CopyDemand`. */
export interface ModelDemand extends CopyDemand {
  readonly modelKey: string
}

/** An account may queue this many requests for each concurrent request that the loaded copies can serve. */
const MAX_WAITING_PER_PLACE = 32
/** Affinity sends requests to a node only up to this multiple of the mean load (https://arxiv.org/abs/1608.01350). */
const MAX_AFFINITY_LOAD = 1.25
const FLEX_WEIGHT = 0.25
const PRIORITY_WEIGHT = 4
/** The cost of a request until the model has reported tokens. */
const UNKNOWN_COST = 1
const AVERAGED = 16
const MAX_RETRY_AFTER_S = 60
/** Reports and the list of gateways may change a node's budget without an event. */
const POLL_INTERVAL_MS = 250
const MIN_USE = 0.01
/** How long a model's averages are kept after its last request. */
const AVERAGES_TTL_MS = 10 * 60_000

/**
 * Admits requests to loaded models. A node gets at most the model's budget at once; all other requests wait here, where
 * accounts and their keys take turns, weighted by served tokens. A queue inside the node would be first come, first
 * served.
 */
export class ModelSlots implements Disposable {
  readonly #options: ModelSlotsOptions
  readonly #queues = new Map<string, ModelQueue>()
  readonly #stopListening: () => void
  readonly #timer: NodeJS.Timeout

  constructor(options: ModelSlotsOptions) {
    this.#options = options
    this.#stopListening = options.links.onModel((_nodeId, { model_key }: NodeModel) => {
      const queue = this.#queues.get(model_key)
      if (queue) this.#dispatch(queue)
    })
    this.#timer = setInterval(() => this.#poll(), POLL_INTERVAL_MS)
    this.#timer.unref()
  }

  /**
   * Returns a slot on a node that has the model loaded, synchronously if one is free. Returns undefined if no node has
   * the model loaded, or once the signal aborts. Throws `rate_limited` if the account has too many waiting requests.
   */
  take(request: SlotRequest): ModelSlot | Promise<ModelSlot | undefined> | undefined {
    const queue = this.#queueOf(request)
    const nodes = this.#loadedOn(request)
    if (nodes.length === 0) return undefined
    const nodeId = this.#freeNode(queue, request, nodes)
    if (nodeId !== undefined) {
      const ticket = queue.waiting.start(requesterOf(request), queue.cost)
      return this.#enter(queue, nodeId, ticket)
    }
    this.#checkShare(queue, request.account_id, nodes)
    return this.#wait(queue, request)
  }

  /** Returns how many requests are waiting for one of a model's slots. */
  waiting(modelKey: string): number {
    return this.#queues.get(modelKey)?.waiting.size ?? 0
  }

  /** Returns how many requests are waiting and in flight for each model, on any node. */
  counts(): { modelKey: string; waiting: number; inFlight: number }[] {
    return [...this.#queues.values()].map(({ modelKey, waiting, inFlight }) => ({
      modelKey,
      waiting: waiting.size,
      inFlight: [...inFlight.values()].reduce((sum, count) => sum + count, 0),
    }))
  }

  /** Returns the use of models since the last call. */
  takeDemand(): ModelDemand[] {
    const taken: ModelDemand[] = []
    for (const queue of this.#queues.values()) {
      if (!queue.isUsed && !queue.isReported) continue
      queue.isReported = queue.isUsed
      const samples = Math.max(1, queue.samples)
      taken.push({
        modelKey: queue.modelKey,
        // Requests that fell between two samples count as minimal use.
        inFlight: Math.max(queue.inFlightSum / samples, queue.isUsed ? MIN_USE : 0),
        waiting: queue.waitingSum / samples,
        serviceMs: queue.serviceMs,
      })
      queue.samples = queue.inFlightSum = queue.waitingSum = 0
      queue.isUsed = !queue.waiting.isIdle
    }
    return taken
  }

  [Symbol.dispose](): void {
    this.#stopListening()
    clearInterval(this.#timer)
    const stopping = new ApiError('unavailable', 'this gateway is stopping')
    for (const { waiting } of this.#queues.values())
      for (const { reject } of waiting.requests()) reject(stopping)
  }

  #wait(queue: ModelQueue, request: SlotRequest): Promise<ModelSlot | undefined> {
    const beganAt = performance.now()
    const waiting = new Promise<ModelSlot | undefined>((resolve, reject) => {
      if (request.signal.aborted) return resolve(undefined)
      const waiter: Waiter = { request, resolve, reject }
      queue.waiting.push(waiter, requesterOf(request))
      // The listener lives as long as the signal; after the wait it does nothing.
      request.signal.addEventListener('abort', () => {
        queue.waiting.remove(waiter)
        resolve(undefined)
      })
    })
    return waiting.finally(() => this.#options.onWaited?.(queue.modelKey, performance.now() - beganAt))
  }

  #checkShare(queue: ModelQueue, accountId: string, nodes: readonly IndexedNode[]): void {
    let places = 0
    for (const node of nodes) places += this.#budget(node, queue)
    const waiting = queue.waiting.waitingOf(accountId) + queue.waiting.waitingOf(flexOf(accountId))
    const limit = MAX_WAITING_PER_PLACE * places
    if (waiting < limit) return
    const waitMs = (queue.serviceMs * (queue.waiting.size + 1)) / places
    const seconds = Math.min(MAX_RETRY_AFTER_S, Math.max(1, Math.ceil(waitMs / 1_000)))
    throw temporaryError(
      'rate_limited',
      `this account already has ${waiting} requests waiting for this model; try again in ${seconds} s`,
      seconds,
      {
        headers: {
          'ratelimit-limit': String(limit),
          'ratelimit-remaining': '0',
          'ratelimit-reset': String(seconds),
        },
      },
    )
  }

  #enter(queue: ModelQueue, nodeId: string, ticket: Ticket<Waiter>): ModelSlot {
    const { placement } = this.#options.links
    const began = performance.now()
    queue.inFlight.set(nodeId, (queue.inFlight.get(nodeId) ?? 0) + 1)
    placement.addPending(nodeId, 1)
    let hasEnded = false
    const end = (tokens?: TokenCounts) => {
      if (hasEnded) return
      hasEnded = true
      placement.addPending(nodeId, -1)
      const remaining = (queue.inFlight.get(nodeId) ?? 1) - 1
      if (remaining > 0) queue.inFlight.set(nodeId, remaining)
      else queue.inFlight.delete(nodeId)
      const tookMs = performance.now() - began
      const cost = tokens && costOf(tokens)
      queue.serviceMs += (tookMs - queue.serviceMs) / (queue.serviceMs ? AVERAGED : 1)
      // If a request ends without reporting usage, estimate its cost from its duration.
      const estimate = Math.max(ticket.charged, (queue.cost * tookMs) / queue.serviceMs)
      queue.waiting.end(ticket, cost ?? estimate)
      if (cost) queue.cost += (cost - queue.cost) / AVERAGED
      this.#dispatchTo(queue, nodeId)
    }
    return { nodeId, end, [Symbol.dispose]: end }
  }

  /** Starts waiting requests on one node while it has room. */
  #dispatchTo(queue: ModelQueue, nodeId: string): void {
    const node = this.#options.links.placement.node(nodeId)
    const now = Date.now()
    const unserved = new Set<string>()
    const isRetiring = node?.models.get(queue.modelKey)?.retiring ?? false
    const canRun = ({ request }: Waiter) => {
      if (!node || unserved.has(request.account_id)) return false
      if (isRetiring && !this.#loadedOn(request).includes(node)) return false
      if (rejectReason(node, { ...request, atLeast: 'warm', now }) === undefined) return true
      if (!request.exclude?.size) unserved.add(request.account_id)
      return false
    }
    while (node && queue.waiting.size > 0 && this.#shareOf(node, queue) < 1) {
      const next = queue.waiting.next(canRun, queue.cost)
      if (!next) return
      next.request.resolve(this.#enter(queue, nodeId, next.ticket))
    }
  }

  /** Starts waiting requests on any node, and releases requests for which no node has the model loaded. */
  #dispatch(queue: ModelQueue): void {
    const full = new Set<string>()
    const loaded = new Map<string, boolean>()
    while (queue.waiting.size > 0) {
      let nodeId: string | undefined
      const canRun = ({ request }: Waiter) => {
        if (full.has(request.account_id)) return false
        nodeId = this.#freeNode(queue, request, this.#loadedOn(request))
        if (nodeId === undefined && !request.exclude?.size) full.add(request.account_id)
        return nodeId !== undefined
      }
      const next = queue.waiting.next(canRun, queue.cost)
      if (!next || nodeId === undefined) break
      next.request.resolve(this.#enter(queue, nodeId, next.ticket))
    }
    for (const waiter of queue.waiting.requests()) {
      const { account_id, exclude } = waiter.request
      const isLoaded =
        (exclude?.size ? undefined : loaded.get(account_id)) ?? this.#loadedOn(waiter.request).length > 0
      if (!exclude?.size) loaded.set(account_id, isLoaded)
      if (isLoaded) continue
      queue.waiting.remove(waiter)
      waiter.resolve(undefined)
    }
  }

  #poll(): void {
    for (const [modelKey, queue] of this.#queues) {
      queue.samples += 1
      queue.waitingSum += queue.waiting.size
      for (const count of queue.inFlight.values()) queue.inFlightSum += count
      if (queue.waiting.size > 0) this.#dispatch(queue)
      else if (queue.waiting.isIdle && performance.now() - queue.usedAt > AVERAGES_TTL_MS)
        this.#queues.delete(modelKey)
    }
  }

  /**
   * Returns a node with room for the request: the one that it has affinity for, or else the one with the least busy
   * copy.
   */
  #freeNode(queue: ModelQueue, request: SlotRequest, nodes: readonly IndexedNode[]): string | undefined {
    const free = nodes.filter((node) => this.#shareOf(node, queue) < 1)
    if (free.length < 2) return free[0]?.snapshot.node_id
    return this.#preferredNode(queue, request, nodes) ?? this.#leastBusy(free, queue).snapshot.node_id
  }

  /** Several gateways see the same nodes, so break ties at random. */
  #leastBusy(nodes: readonly IndexedNode[], queue: ModelQueue): IndexedNode {
    const start = Math.floor(Math.random() * nodes.length)
    let best = at(nodes, start)
    let bestShare = this.#shareOf(best, queue)
    for (let i = 1; i < nodes.length; i++) {
      const node = at(nodes, (start + i) % nodes.length)
      const share = this.#shareOf(node, queue)
      const order = share - bestShare || node.pending - best.pending || best.points - node.points
      if (order >= 0) continue
      best = node
      bestShare = share
    }
    return best
  }

  /** Returns the node that has already processed the request's prefix, unless it is busier than others. */
  #preferredNode(queue: ModelQueue, request: SlotRequest, nodes: readonly IndexedNode[]): string | undefined {
    if (!request.affinity) return undefined
    const ids = nodes.map(({ snapshot }) => snapshot.node_id)
    const nodeId = preferredNode(ids, request.account_id, request.affinity())
    const node = nodes.find(({ snapshot }) => snapshot.node_id === nodeId)
    if (!node || this.#shareOf(node, queue) >= 1) return undefined
    let total = 1
    for (const id of ids) total += queue.inFlight.get(id) ?? 0
    const limit = Math.ceil((MAX_AFFINITY_LOAD * total) / ids.length)
    return (queue.inFlight.get(node.snapshot.node_id) ?? 0) < limit ? nodeId : undefined
  }

  /** Returns the nodes that have the model loaded and can take the request. */
  #loadedOn(request: SlotRequest): IndexedNode[] {
    const { model_key, account_id } = request
    const need: PlacementNeed = { ...request, atLeast: 'warm', now: Date.now() }
    const nodes = this.#options.links.placement
      .loadedOn(model_key, account_id)
      .filter((node) => rejectReason(node, need) === undefined)
    // A copy that is about to be unloaded gets requests only if it's the last one.
    const staying = nodes.filter((node) => !node.models.get(model_key)?.retiring)
    return staying.length > 0 ? staying : nodes
  }

  /** Returns the used share of a node's budget; 1 or more if it has no room. */
  #shareOf(node: IndexedNode, queue: ModelQueue): number {
    return (queue.inFlight.get(node.snapshot.node_id) ?? 0) / this.#budget(node, queue)
  }

  /** This gateway's share of the requests that the model serves at once on a node. */
  #budget(node: IndexedNode, { modelKey, runtimeProfile }: ModelQueue): number {
    const { catalog, links, baseUrl } = this.#options
    const most =
      node.models.get(modelKey)?.max_concurrency ??
      catalog.profile(runtimeProfile)?.max_concurrency ??
      Number.POSITIVE_INFINITY
    const { gateways } = links
    const count = Math.max(1, gateways.length)
    if (count === 1 || most === Number.POSITIVE_INFINITY) return most
    const hasRest = gateways.indexOf(baseUrl) < most % count
    return Math.max(1, Math.floor(most / count) + (hasRest ? 1 : 0))
  }

  #queueOf({ model_key: modelKey, runtime_profile: runtimeProfile }: SlotRequest): ModelQueue {
    let queue = this.#queues.get(modelKey)
    if (!queue) {
      queue = {
        modelKey,
        runtimeProfile,
        usedAt: 0,
        samples: 0,
        inFlightSum: 0,
        waitingSum: 0,
        isUsed: true,
        isReported: false,
        waiting: new FairQueue(),
        inFlight: new Map(),
        cost: UNKNOWN_COST,
        serviceMs: 0,
      }
      this.#queues.set(modelKey, queue)
    }
    queue.usedAt = performance.now()
    queue.isUsed = true
    return queue
  }
}

const flexOf = (accountId: string): string => `${accountId} flex`

/** An output token costs about as much as two input tokens, because the model reads many input tokens at once. */
const costOf = ({ in: read, out }: TokenCounts): number | undefined => read + 2 * out || undefined

/**
 * `flex` requests have their own share, a quarter of the account's share. Tier `priority` only gets more turns among
 * the requests of the same account, so any account may use it.
 */
function requesterOf({ account_id, key_id, tier = 'default' }: SlotRequest): Requester {
  if (tier === 'default') return { accountId: account_id, keyId: key_id }
  if (tier === 'flex') return { accountId: flexOf(account_id), keyId: key_id, accountWeight: FLEX_WEIGHT }
  return { accountId: account_id, keyId: `${key_id} priority`, keyWeight: PRIORITY_WEIGHT }
}
