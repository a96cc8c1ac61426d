import type { Kysely } from 'kysely'
import { outsideAccounts } from '../../db/account-share.ts'
import * as unusableVersionRepository from '../../db/repositories/models/unusable-versions.ts'
import * as nodeLoadRepository from '../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../db/repositories/nodes/model-orders.ts'
import * as workflowStartRepository from '../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError, unusableModel } from '../../domain/errors.ts'
import { isLoading, missingEnvironment, warmthOf } from '../../domain/placement/node-snapshot.ts'
import type { Chosen, PlacementNeed } from '../../domain/placement/placement.ts'
import type { Logger } from '../../platform/log.ts'
import type { NodeModel } from '../../schemas/node.ts'
import { modelLoadStart } from '../../workflows/contract/starts.ts'
import { emit } from '../events.ts'
import type { NodeLinks } from '../gateway/links/node-links.ts'
import { cold, delayOn, type LoadDelay, RETRY_AFTER_S, unavailable } from './load-refusals.ts'
import { noNodeReason } from './no-node.ts'

/** The requirements of a model. */
export interface LoadNeed {
  readonly model_key: string
  /** The account of the waiting request. */
  readonly account_id: string
  readonly runtime_profile: string
  readonly memory_mb: number
}

export interface ModelLoadsOptions {
  db: Kysely<Database>
  links: Pick<NodeLinks, 'onModel' | 'placement'>
  outbox: { poke(): void }
  log: Logger
}

/**
 * The part of a need that is shared by all accounts with the same nodes; `account_id` is null for accounts that
 * only shared nodes serve.
 */
type SharedNeed = Omit<LoadNeed, 'account_id'> & { readonly account_id: string | null }

/** A load in progress, with the requests that wait for it. */
interface Load {
  readonly need: SharedNeed
  readonly beganAt: number
  /** Nodes that failed to load it for these requests. */
  readonly tried: Set<string>
  readonly waiters: Set<Waiter>
  place: Chosen | undefined
  /**
   * The time at which its node got the order. Undefined if this load joined an earlier one, whose
   * duration is then unknown.
   */
  orderedAt: number | undefined
  /**
   * The time at which to place it again, after a node had no memory for it or is backing off;
   * unset while a node loads it.
   */
  againAt: number
  /** Milliseconds for which its node could not begin to load it; they do not count against the waiting time. */
  delayedMs: number
}

interface Waiter {
  readonly bytes: number
  readonly timeoutMs: number
  readonly resolve: () => void
  readonly reject: (err: unknown) => void
}

/** The longest wait: this multiple of the mean load time, or a fixed time without samples. */
const CEILING_FACTOR = 1.5
const UNMEASURED_CEILING_MS = 120_000
/** Load times are taken on the node and leave out the delivery of the order, which matters for short loads. */
const MIN_CEILING_MS = 2_000
const MAX_WAITERS = 4_096
const MAX_WAITING_BYTES = 256 * 1024 * 1024
/** The interval for checking reports, which may show changes that no single frame announced. */
const POLL_INTERVAL_MS = 250
/** A node whose back-off ends this soon is waited for: its model server has just died, or a load has just failed. */
const BACKOFF_WAIT_MS = 5_000
/** A node that failed a load for lack of memory may have some after this time. */
const RETRY_DELAY_MS = 1_000
/** The time for which a load without waiting requests stays in the table. */
const UNATTENDED_MS = 60_000

/**
 * Loads of models that requests wait for. However many requests wait for a model, one `modelLoad` workflow is enqueued,
 * and all of them wake when a node reports the model as loaded.
 */
export class ModelLoads implements Disposable {
  readonly #options: ModelLoadsOptions
  /** By model, then by account. */
  readonly #loads = new Map<string, Map<string | null, Load>>()
  readonly #stopListening: () => void
  readonly #timer: NodeJS.Timeout
  #lookedAt = performance.now()
  #waiting = 0
  #bytes = 0

  constructor(options: ModelLoadsOptions) {
    this.#options = options
    this.#stopListening = options.links.onModel((nodeId, model) => this.#told(nodeId, model))
    this.#timer = setInterval(() => this.#poll(), POLL_INTERVAL_MS)
    this.#timer.unref()
  }

  /** The number of requests that wait for a model. */
  get waiting(): number {
    return this.#waiting
  }

  /** Returns the number of requests that wait for each model. */
  waitingByModel(): Map<string, number> {
    const waiting = new Map<string, number>()
    for (const [modelKey, loads] of this.#loads) {
      let count = 0
      for (const { waiters } of loads.values()) count += waiters.size
      if (count > 0) waiting.set(modelKey, count)
    }
    return waiting
  }

  /** Returns the milliseconds that a request may wait for a model before it is refused with `Retry-After`. */
  async ceilingMs({ model_key, account_id }: Pick<LoadNeed, 'model_key' | 'account_id'>): Promise<number> {
    const { db, links } = this.#options
    const state = links.placement.count(model_key, account_id).cached > 0 ? 'cached' : 'cold'
    const measured = await nodeLoadRepository.estimateLoadMs(db, model_key, state)
    if (measured === undefined) return UNMEASURED_CEILING_MS
    return Math.max(MIN_CEILING_MS, CEILING_FACTOR * measured)
  }

  /**
   * Resolves when a node has the model loaded. Throws `model_cold` after `timeoutMs` or when the model cannot be
   * loaded, and `no_capacity` when no node can load it or too many requests wait. `bytes` is the memory that the
   * request holds meanwhile.
   */
  wait(
    need: LoadNeed,
    { timeoutMs, bytes, signal }: { timeoutMs: number; bytes: number; signal: AbortSignal },
  ): Promise<void> {
    if (this.#waiting >= MAX_WAITERS || this.#bytes + bytes > MAX_WAITING_BYTES) {
      throw unavailable('no_capacity', 'too many requests wait for models to be loaded', RETRY_AFTER_S)
    }
    const account_id = this.#options.links.placement.hasOwnNode(need.account_id) ? need.account_id : null
    const load = this.#loads.get(need.model_key)?.get(account_id) ?? this.#begin({ ...need, account_id })
    // The load continues without a waiting request, so that a retry finds the model loaded.
    const delay = this.#delay(load)
    if (delay && delay.ms > timeoutMs) throw delay.refusal()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter = { bytes, timeoutMs, resolve, reject }
    load.waiters.add(waiter)
    this.#waiting += 1
    this.#bytes += bytes
    const late = this.#lateness(load, timeoutMs, reject)
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    return promise.finally(() => {
      late[Symbol.dispose]()
      signal.removeEventListener('abort', leave)
      this.#waiting -= 1
      this.#bytes -= bytes
      load.waiters.delete(waiter)
      if (load.waiters.size === 0) this.#forget(load)
    })
  }

  [Symbol.dispose](): void {
    this.#stopListening()
    clearInterval(this.#timer)
    const stopping = new ApiError('unavailable', 'this gateway is stopping')
    for (const { waiters } of this.#all()) for (const { reject } of waiters) reject(stopping)
  }

  #all(): Load[] {
    return [...this.#loads.values()].flatMap((loads) => [...loads.values()])
  }

  #begin(need: SharedNeed): Load {
    const load: Load = {
      need,
      beganAt: performance.now(),
      tried: new Set(),
      waiters: new Set(),
      place: undefined,
      orderedAt: undefined,
      againAt: Number.POSITIVE_INFINITY,
      delayedMs: 0,
    }
    const loads = this.#loads.get(need.model_key)
    if (loads) loads.set(need.account_id, load)
    else this.#loads.set(need.model_key, new Map([[need.account_id, load]]))
    // The caller that begins a load joins it first, so that a failure has a waiter.
    queueMicrotask(() => outsideAccounts(() => this.#start(load)))
    return load
  }

  /** Rejects a waiter after `timeoutMs`. Its node's delay does not count unless it is far longer than expected. */
  #lateness(load: Load, timeoutMs: number, reject: (err: unknown) => void): Disposable {
    const before = load.delayedMs
    // A delay that begins later is at most `timeoutMs`; the waiter is rejected otherwise.
    const longestMs = 2 * timeoutMs + 2 * (this.#delay(load)?.ms ?? 0) + UNMEASURED_CEILING_MS
    let counted = timeoutMs
    const look = () => {
      const spared = load.delayedMs - before
      const delay = this.#delay(load)
      const waited = counted
      if (waited < timeoutMs + spared || delay)
        counted = Math.max(timeoutMs + spared, waited + POLL_INTERVAL_MS)
      if (counted === waited) return reject(cold(timeoutMs))
      if (counted > longestMs) return reject(delay?.refusal() ?? cold(timeoutMs))
      timer = setTimeout(look, counted - waited)
    }
    let timer = setTimeout(look, timeoutMs)
    return { [Symbol.dispose]: () => clearTimeout(timer) }
  }

  /**
   * Returns the delay of the load's node; before a node is chosen, the shortest one of all nodes that could load the
   * model.
   */
  #delay({ need, place, tried }: Load): LoadDelay | undefined {
    const { placement } = this.#options.links
    const now = Date.now()
    let shortest: LoadDelay | undefined
    for (const snapshot of placement.snapshots()) {
      const { node_id } = snapshot
      if (
        place ? place.node_id !== node_id : placement.rejectReason(node_id, { ...need, exclude: tried, now })
      )
        continue
      const delay = delayOn(snapshot, need)
      if (!delay) return undefined
      if (!shortest || delay.ms < shortest.ms) shortest = delay
    }
    return shortest
  }

  /** Picks a node and enqueues the load there; a load in progress is joined. */
  #start(load: Load): void {
    const need = { ...load.need, exclude: load.tried, now: Date.now() }
    const { chosen, explain } = this.#place(need)
    if (!chosen) {
      const waitMs = this.#nextTryMs(need)
      if (waitMs <= BACKOFF_WAIT_MS) {
        load.place = undefined
        load.againAt = performance.now() + waitMs
        return
      }
      const seconds = Number.isFinite(waitMs) ? Math.ceil(waitMs / 1_000) : RETRY_AFTER_S
      const message = `no node can load this model now: ${noNodeReason(explain())}`
      return this.#fail(load, unavailable('no_capacity', message, seconds))
    }
    if (chosen.warmth === 'warm') return this.#loaded(load, chosen.node_id)
    load.place = chosen
    load.orderedAt = this.#isUnderWay(chosen.node_id, load.need.model_key) ? undefined : performance.now()
    load.againAt = Number.POSITIVE_INFINITY
    void this.#promise(load, chosen.node_id)
  }

  /** The node already loads the model, for another gateway, for a task or by itself. */
  #isUnderWay(nodeId: string, modelKey: string): boolean {
    const { placement } = this.#options.links
    const node = placement.snapshots().find(({ node_id }) => node_id === nodeId)
    return isLoading(node?.models.find(({ model_key }) => model_key === modelKey))
  }

  /** Prefers a node that has the environment over one that must install it. */
  #place(need: PlacementNeed & { exclude: Set<string> }) {
    const { placement } = this.#options.links
    const unready = placement
      .snapshots()
      .filter((snapshot) => missingEnvironment(snapshot, need.runtime_profile))
      .map(({ node_id }) => node_id)
    if (unready.length === 0) return placement.place(need, Math.random)
    const ready = placement.place({ ...need, exclude: new Set([...need.exclude, ...unready]) }, Math.random)
    return ready.chosen ? ready : placement.place(need, Math.random)
  }

  /** Returns the milliseconds until a node that backs off could load the model; infinite when there is none. */
  #nextTryMs(need: PlacementNeed): number {
    const { placement } = this.#options.links
    const tries = placement.snapshots().flatMap(({ node_id, models }) => {
      const at = models.find(({ model_key }) => model_key === need.model_key)?.retry_at
      if (at === undefined || at <= need.now) return []
      return placement.rejectReason(node_id, { ...need, now: at }) === undefined ? at - need.now : []
    })
    return Math.min(...tries)
  }

  async #promise({ need }: Load, nodeId: string): Promise<void> {
    const { db, outbox, log } = this.#options
    const place = { modelKey: need.model_key, nodeId }
    try {
      await db.transaction().execute(async (trx) => {
        await modelOrderRepository.orderModel(trx, place)
        await workflowStartRepository.enqueueWorkflow(trx, modelLoadStart(place))
      })
      outbox.poke()
    } catch (err) {
      // Waiting requests are refused when their time is up; the next request tries again.
      emit(log, 'model.load_promise_failed', { err, model_key: need.model_key })
    }
  }

  #told(nodeId: string, model: NodeModel): void {
    const loads = this.#loads.get(model.model_key)
    if (!loads) return
    for (const load of loads.values())
      if (this.#options.links.placement.serves(nodeId, load.need.account_id))
        this.#toldOf(load, nodeId, model)
  }

  #toldOf(load: Load, nodeId: string, model: NodeModel): void {
    if (warmthOf(model) === 'warm') return this.#loaded(load, nodeId)
    const isOver = model.state === 'cold' || model.state === 'evicted'
    if (!isOver || load.place?.node_id !== nodeId) return
    if (model.error === undefined) {
      load.againAt = performance.now() + RETRY_DELAY_MS
      return
    }
    if (model.unusable) void this.#condemn(load, nodeId, model, model.error)
    else this.#tryElsewhere(load, nodeId, model)
  }

  /** When the weights are at fault, no other node can load them; but only reports of trusted nodes count. */
  async #condemn(load: Load, nodeId: string, model: NodeModel, reason: string): Promise<void> {
    const { db, log } = this.#options
    const { model_key: modelKey } = model
    const isMarked = await db
      .transaction()
      .execute((trx) => unusableVersionRepository.markUnusable(trx, { modelKey, nodeId, reason }))
      .catch((err: unknown) => {
        emit(log, 'model.mark_failed', { err, model_key: modelKey })
        return false
      })
    if (isMarked) this.#fail(load, unusableModel(reason))
    else if (load.place?.node_id === nodeId) this.#tryElsewhere(load, nodeId, model)
  }

  #tryElsewhere(load: Load, nodeId: string, model: NodeModel): void {
    load.tried.add(nodeId)
    const { chosen } = this.#options.links.placement.place(
      { ...load.need, exclude: load.tried, now: Date.now() },
      Math.random,
    )
    if (chosen) return this.#start(load)
    const wait = Math.max(1, Math.ceil(((model.retry_at ?? 0) - Date.now()) / 1_000))
    this.#fail(load, unavailable('model_cold', `the model could not be loaded: ${model.error}`, wait))
  }

  #poll(): void {
    const now = performance.now()
    const sinceLookMs = now - this.#lookedAt
    this.#lookedAt = now
    for (const load of this.#all()) {
      const { model_key, account_id } = load.need
      const delay = this.#delay(load)
      if (delay) {
        load.delayedMs += sinceLookMs
        for (const { timeoutMs, reject } of load.waiters) if (delay.ms > timeoutMs) reject(delay.refusal())
      } else if (load.waiters.size === 0 && now - load.beganAt > UNATTENDED_MS) this.#forget(load)
      if (this.#options.links.placement.count(model_key, account_id).warm > 0) this.#loaded(load, undefined)
      else if (performance.now() > load.againAt) this.#start(load)
    }
  }

  #loaded(load: Load, nodeId: string | undefined): void {
    this.#forget(load)
    for (const { resolve } of load.waiters) resolve()
    if (nodeId !== undefined && load.place?.node_id === nodeId) void this.#record(load, load.place)
  }

  #fail(load: Load, err: ApiError): void {
    this.#forget(load)
    for (const { reject } of load.waiters) reject(err)
  }

  #forget(load: Load): void {
    const { model_key, account_id } = load.need
    const loads = this.#loads.get(model_key)
    if (loads?.get(account_id) !== load) return
    loads.delete(account_id)
    if (loads.size === 0) this.#loads.delete(model_key)
  }

  async #record({ need, orderedAt, delayedMs }: Load, { node_id, warmth }: Chosen): Promise<void> {
    const { db, links, log } = this.#options
    const hardware = links.placement.hardware(node_id)
    // A load that had to wait for its node is not recorded, because the next one may not have to.
    if (warmth === 'warm' || !hardware || delayedMs > 0 || orderedAt === undefined) return
    const mean_ms = performance.now() - orderedAt
    await nodeLoadRepository
      .recordLoad(db, { model_key: need.model_key, start_state: warmth, hardware, mean_ms })
      .catch((err: unknown) => emit(log, 'model.load_time_failed', { err, model_key: need.model_key }))
  }
}
