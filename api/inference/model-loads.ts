import type { Kysely } from 'kysely'
import { outsideAccounts } from '../../db/account-share.ts'
import * as unusableVersionRepository from '../../db/repositories/models/unusable-versions.ts'
import * as nodeLoadRepository from '../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../db/repositories/nodes/model-orders.ts'
import * as workflowStartRepository from '../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError, unusableModel } from '../../domain/errors.ts'
import type { PlacementNeed } from '../../domain/placement/need.ts'
import { isLoading, missingEnvironment, warmthOf } from '../../domain/placement/node-snapshot.ts'
import type { NodeChoice } from '../../domain/placement/placement.ts'
import type { Logger } from '../../platform/log.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import { modelLoadStart } from '../../workflows/contract/starts.ts'
import { emit } from '../events.ts'
import type { NodeLinks } from '../gateway/links/node-links.ts'
import { cold, delayOn, type LoadDelay, RETRY_AFTER_S, unavailable } from './load-refusals.ts'
import { noNodeReason } from './no-node.ts'

/** A model's requirements, and the account of the waiting request. */
export interface LoadNeed extends Omit<
  PlacementNeed,
  'account_id' | 'hardware' | 'exclude' | 'atLeast' | 'now'
> {
  readonly account_id: string
}

export interface ModelLoadsOptions {
  db: Kysely<Database>
  links: Pick<NodeLinks, 'onModel' | 'placement'>
  outbox: { poke(): void }
  log: Logger
  onPlaced?: (isPlaced: boolean) => void
}

/** The need that accounts with the same nodes share; `account_id` is null for accounts that only shared nodes serve. */
type SharedNeed = Omit<LoadNeed, 'account_id'> & { readonly account_id: string | null }

/** A load in progress, with the requests that are waiting for it. */
interface Load {
  readonly need: SharedNeed
  readonly beganAt: number
  /** Nodes that failed to load it for these requests. */
  readonly tried: Set<string>
  readonly waiters: Set<Waiter>
  place: NodeChoice | undefined
  /** When the node received the order. Undefined if this load joined an earlier one, so its duration is unknown. */
  orderedAt: number | undefined
  /**
   * When to place the load again, after a node had no memory for it or while nodes back off. Infinite while a node
   * loads it.
   */
  againAt: number
  /** Milliseconds for which the node couldn't start the load; they don't count against the waiting time. */
  delayedMs: number
}

interface Waiter {
  readonly bytes: number
  readonly timeoutMs: number
  readonly resolve: () => void
  readonly reject: (err: unknown) => void
}

/** The wait ceiling is this multiple of the mean load time, or a fixed time if there are no samples. */
const CEILING_FACTOR = 1.5
const DEFAULT_LOAD_TIMEOUT_MS = 120_000
/** Load times that nodes measure exclude the delivery of the order, which matters for short loads. */
const MIN_CEILING_MS = 2_000
const MAX_WAITERS = 4_096
const MAX_WAITING_BYTES = 256 * 1024 * 1024
/** How often we check reports for changes that no single frame announced. */
const POLL_INTERVAL_MS = 250
/** We wait for a node whose back-off ends this soon: its model server just died, or a load just failed. */
const MAX_BACKOFF_WAIT_MS = 5_000
/** A node that lacked memory for a load may have enough after this time. */
const RETRY_DELAY_MS = 1_000
/** How long a load stays in the table when no request is waiting for it. */
const UNATTENDED_TTL_MS = 60_000

/**
 * Model loads that requests are waiting for. All requests for a model share one enqueued `modelLoad` workflow, and all
 * of them wake when a node reports the model as loaded.
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
    this.#stopListening = options.links.onModel((nodeId, model) => this.#noteModel(nodeId, model))
    this.#timer = setInterval(() => this.#poll(), POLL_INTERVAL_MS)
    this.#timer.unref()
  }

  /** The number of requests that are waiting for any model. */
  get waiting(): number {
    return this.#waiting
  }

  /** Returns the number of requests that are waiting for each model. */
  waitingByModel(): Map<string, number> {
    const waiting = new Map<string, number>()
    for (const [modelKey, loads] of this.#loads) {
      let count = 0
      for (const { waiters } of loads.values()) count += waiters.size
      if (count > 0) waiting.set(modelKey, count)
    }
    return waiting
  }

  /** Returns how many milliseconds a request may wait for a model before we reject it with `Retry-After`. */
  async ceilingMs({ model_key, account_id }: Pick<LoadNeed, 'model_key' | 'account_id'>): Promise<number> {
    const { db, links } = this.#options
    const state = links.placement.count(model_key, account_id).cached > 0 ? 'cached' : 'cold'
    const measured = await nodeLoadRepository.estimateLoadMs(db, model_key, state)
    if (measured === undefined) return DEFAULT_LOAD_TIMEOUT_MS
    return Math.max(MIN_CEILING_MS, CEILING_FACTOR * measured)
  }

  /**
   * Resolves when a node has the model loaded. Throws `model_cold` after `timeoutMs` or if the model can't be loaded,
   * and `no_capacity` if no node can load it or too many requests are waiting. `bytes` is the memory that the request
   * holds while it waits.
   */
  wait(
    need: LoadNeed,
    { timeoutMs, bytes, signal }: { timeoutMs: number; bytes: number; signal: AbortSignal },
  ): Promise<void> {
    if (this.#waiting >= MAX_WAITERS || this.#bytes + bytes > MAX_WAITING_BYTES) {
      throw unavailable(
        'no_capacity',
        'too many requests are waiting for models to load; try again',
        RETRY_AFTER_S,
      )
    }
    const account_id = this.#options.links.placement.hasOwnNode(need.account_id) ? need.account_id : null
    const load = this.#loads.get(need.model_key)?.get(account_id) ?? this.#begin({ ...need, account_id })
    // The load continues even if no request waits for it, so a retry finds the model loaded.
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
    // The caller that starts a load joins it first, so a failure always has a waiter.
    queueMicrotask(() => outsideAccounts(() => this.#start(load)))
    return load
  }

  /** Rejects a waiter after `timeoutMs`. The node's delay doesn't count unless it is far longer than expected. */
  #lateness(load: Load, timeoutMs: number, reject: (err: unknown) => void): Disposable {
    const before = load.delayedMs
    // Cap the total wait: a delay may start later, or last longer than expected.
    const longestMs = 2 * timeoutMs + 2 * (this.#delay(load)?.ms ?? 0) + DEFAULT_LOAD_TIMEOUT_MS
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
   * Returns the delay of the load's node or, before a node is chosen, the shortest delay of all nodes that could load
   * the model.
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

  /** Picks a node and enqueues the load there; joins a load that is already in progress. */
  #start(load: Load): void {
    const need = { ...load.need, exclude: load.tried, now: Date.now() }
    const { chosen, explain } = this.#place(need)
    this.#options.onPlaced?.(chosen !== undefined)
    if (!chosen) {
      const waitMs = this.#nextTryMs(need)
      if (waitMs <= MAX_BACKOFF_WAIT_MS) {
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

  /** Returns whether the node is already loading the model: for another gateway, for a task or by itself. */
  #isUnderWay(nodeId: string, modelKey: string): boolean {
    return isLoading(this.#options.links.placement.model(nodeId, modelKey))
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

  /** Returns the milliseconds until a node that backs off could load the model; infinite if there is no such node. */
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
    const order = { modelKey: need.model_key, nodeId }
    try {
      await db.transaction().execute(async (trx) => {
        await modelOrderRepository.orderModel(trx, order)
        await workflowStartRepository.enqueueWorkflow(trx, modelLoadStart(order))
      })
      outbox.poke()
    } catch (err) {
      // Waiting requests time out; the next request tries again.
      emit(log, 'model.load_promise_failed', { err, model_key: need.model_key })
    }
  }

  #noteModel(nodeId: string, model: NodeModel): void {
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

  /** If the weights are broken, no other node can load them either; but only reports from trusted nodes count. */
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
      } else if (load.waiters.size === 0 && now - load.beganAt > UNATTENDED_TTL_MS) this.#forget(load)
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

  async #record({ need, orderedAt, delayedMs }: Load, place: NodeChoice): Promise<void> {
    const { db, links, log } = this.#options
    const { node_id, warmth, asleep } = place
    const hardware = links.placement.hardware(node_id)
    // Don't record a load that had to wait for its node, or that only woke the model: the next one may differ.
    if (warmth === 'warm' || asleep || !hardware || delayedMs > 0 || orderedAt === undefined) return
    const mean_ms = performance.now() - orderedAt
    await nodeLoadRepository
      .recordLoad(db, { model_key: need.model_key, start_state: warmth, hardware, mean_ms })
      .catch((err: unknown) => emit(log, 'model.load_time_failed', { err, model_key: need.model_key }))
  }
}
