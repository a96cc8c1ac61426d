import { setTimeout as sleep } from 'node:timers/promises'
import { freeMemoryOn } from '../../domain/placement/gpu-capacity.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'
import { type LoadedModel, MAX_PROTECTION_TTL_MS } from '../models/loaded-model.ts'
import type { Sleeper } from '../models/sleeper.ts'
import { chooseEviction, type PooledModel, type EvictionPlan } from './eviction.ts'
import type { MemoryMeter } from './meter.ts'
import type { MemoryReservations } from './reservations.ts'

export interface MemoryAllocatorOptions {
  memory: MemoryReservations
  meter: MemoryMeter
  log: Logger
  /** All models on this node. */
  models: () => Iterable<LoadedModel>
  /**
   * Called with `evicted` when a model's server is stopping and its memory is not free yet, with `idle` when the server
   * could not be stopped, and with `loading_model` when a load is waiting for protected models.
   */
  onMove: (model: LoadedModel, state: 'evicted' | 'idle' | 'loading_model') => void
  timeouts?: MemoryTimeouts
  /** Puts models to sleep; by default, models are always stopped. */
  sleeper?: Pick<Sleeper, 'canSleep' | 'fallAsleep'>
}

/** Time limits for memory that is not freed, in milliseconds. */
export interface MemoryTimeouts {
  /** The interval between two checks. */
  pollMs: number
  /** The time before the first error in the log; the interval doubles for each further error. */
  alarmMs: number
  /** The time before a reservation is released even though nothing reports whether the memory is free. */
  unknownMs: number
  /** The time before a caller that needs the memory gets a `NotEnoughMemoryError`. */
  waitMs: number
}

/** Thrown when the memory would not suffice even without all idle models. */
export class NotEnoughMemoryError extends Error {
  override readonly name = 'NotEnoughMemoryError'
}

interface MemoryRequest {
  /** Memory that this holder has already counts as free. */
  readonly holder: string
  readonly neededMb: number
  /** The number of pools that hold equal parts. */
  readonly count: number
  /** The only pools that qualify. */
  readonly pools?: readonly number[] | undefined
  /** True for a load, which puts models to sleep rather than stop them. */
  readonly isLoad?: boolean
}

export interface ReserveOptions {
  /** The number of GPUs that share the memory in equal parts. */
  count?: number
  /** Ends the wait for recently loaded models. */
  signal?: AbortSignal
  /** The model whose load needs the memory. Idle models are then put to sleep rather than stopped, if they can be. */
  model?: LoadedModel
  /** The only GPUs that qualify. */
  pools?: readonly number[]
}

type EvictablePool = PooledModel & { readonly model: LoadedModel }

interface NextPlan {
  readonly plan: EvictionPlan<EvictablePool>
  readonly at: number
}

const TOO_RECENT = 'the memory it needs is held by recently loaded models'

const TIMEOUTS: MemoryTimeouts = { pollMs: 250, alarmMs: 10_000, unknownMs: 30_000, waitMs: 60_000 }

/** Reserves this node's memory, and evicts idle models to make room, least recently used first. */
export class MemoryAllocator {
  readonly #options: MemoryAllocatorOptions
  readonly #timeouts: MemoryTimeouts

  constructor(options: MemoryAllocatorOptions) {
    this.#options = options
    this.#timeouts = options.timeouts ?? TIMEOUTS
  }

  /**
   * Reserves memory for a holder, on one GPU or in equal parts on several, and returns the indexes of those GPUs.
   * Resolves once every evicted model has freed its memory. Recently loaded models are evicted only if the others do
   * not suffice, and only after they have been loaded for as long as loading them took. Throws a `NotEnoughMemoryError`
   * if there is not enough memory, without evicting anything, or if evicted memory is not freed in time.
   */
  async reserve(
    holder: string,
    neededMb: number,
    { count = 1, signal, model, pools }: ReserveOptions = {},
  ): Promise<readonly number[]> {
    const { memory, log } = this.#options
    const room = { holder, neededMb, count, pools, isLoad: model !== undefined }
    const beganAt = performance.now()
    let next = this.#nextPlan(room)
    // Nothing is reserved during the wait, so waiting callers can't block each other.
    try {
      for (let until = beganAt; !next || next.at > performance.now(); next = this.#nextPlan(room)) {
        if (next && next.at <= beganAt + MAX_PROTECTION_TTL_MS) {
          const model_keys = next.plan.victims.map(({ modelKey }) => modelKey)
          const wait_ms = Math.ceil(next.at - beganAt)
          if (until === beganAt) emit(log, 'memory.awaited', { holder, model_keys, wait_ms })
          until = next.at
          if (model) this.#reportWait(model, until)
        } else if (performance.now() >= until) {
          // A model may only be busy for a moment, so the lack of a plan is final only at the end of the wait.
          throw new NotEnoughMemoryError(next ? TOO_RECENT : this.#shortage(room))
        }
        const pauseMs = Math.max(1, Math.min(this.#timeouts.pollMs, until - performance.now()))
        await sleep(pauseMs, undefined, { ref: false, signal }).catch(() => {})
        signal?.throwIfAborted()
      }
    } finally {
      if (model?.memoryAt !== undefined) {
        model.delayMs += performance.now() - beganAt
        model.memoryAt = undefined
      }
    }
    const { plan } = next
    const restore = memory.savepoint(holder)
    // The reservation precedes the evictions, so that no other caller counts the same memory.
    memory.reserve(holder, neededMb, plan.pools)
    try {
      if (model) await this.#vacate(plan)
      else await Promise.all(plan.victims.map((victim) => this.evict(victim.model)))
    } catch (err) {
      restore()
      throw err
    }
    return memory.gpusOf(holder)
  }

  /** Returns whether `reserve` could find the memory now or soon. */
  canReserve(holder: string, neededMb: number, count: number): boolean {
    return this.#nextPlan({ holder, neededMb, count, isLoad: true }) !== undefined
  }

  /**
   * Like `reserve`, but for work that must run with whatever memory there is: if that is not enough, evicts every idle
   * model in the largest pools. Returns the missing megabytes.
   */
  async reserveUpTo(holder: string, neededMb: number, count = 1): Promise<number> {
    const { memory } = this.#options
    const idle = this.#evictable()
    const free = memory.freeByPool
    const { pools, victims } =
      chooseEviction({ neededMb, count }, free, idle) ?? largestEviction(count, reachOf(free, idle), idle)
    const remainingMb = new Map(pools.map((pool) => [pool, free[pool] ?? 0]))
    memory.reserve(holder, neededMb, pools)
    await Promise.all(
      victims.map(async ({ model, heldByPool }) => {
        const isGone = await this.evict(model).then(
          () => true,
          () => false,
        )
        if (isGone) for (const [pool, mb] of remainingMb) remainingMb.set(pool, mb + (heldByPool[pool] ?? 0))
      }),
    )
    const partMb = neededMb / pools.length
    return Math.ceil([...remainingMb.values()].reduce((sum, mb) => sum + Math.max(0, partMb - mb), 0))
  }

  /** Ends the reservation of a holder whose processes are known to have exited. */
  release(holder: string): void {
    this.#options.memory.release(holder)
  }

  /** Ends the reservation of a model whose processes have exited, as soon as their memory is free. */
  releaseWhenFree(model: LoadedModel): void {
    this.#leave(model, Promise.resolve())
  }

  /** Waits until the memory of a model's last server is free; throws a `NotEnoughMemoryError` if that takes too long. */
  async whenGone({ modelKey, leaving }: LoadedModel): Promise<void> {
    if (!leaving) return
    const timeout = AbortSignal.timeout(this.#timeouts.waitMs)
    await unlessAborted(leaving, timeout).catch((err: unknown) => {
      throw timeout.aborted
        ? new NotEnoughMemoryError(`the memory of ${modelKey}, which has stopped, has not been freed`)
        : err
    })
  }

  /** Stops the server of a model; resolves once its memory is free, and throws a `NotEnoughMemoryError` when that takes too long. */
  async evict(model: LoadedModel): Promise<void> {
    const { sleeping } = model
    const server = model.server ?? sleeping?.server
    if (!server) return
    const end = async () => {
      try {
        model.sawPids(await server.pids())
        await server.stop()
      } catch (err) {
        // The model still holds its memory and can be evicted again later.
        if (sleeping) model.sleeping = sleeping
        else model.server = server
        this.#options.onMove(model, sleeping ? 'evicted' : 'idle')
        throw err
      }
    }
    model.sleeping = undefined
    for (const gone of [model, ...model.leave()]) this.#options.onMove(gone, 'evicted')
    this.#leave(model, end())
    await this.whenGone(model)
  }

  /**
   * Frees the memory of a plan's victims for a load. Those that can sleep are put to sleep, unless the GPU memory that
   * they keep is needed too.
   */
  async #vacate({ pools, victims }: EvictionPlan<EvictablePool>): Promise<void> {
    await Promise.all(victims.map(({ model }) => this.#sleepOrStop(model)))
    const oldestFirst = victims.map(({ model }) => model).toSorted((a, b) => a.lastUsed - b.lastUsed)
    for (const model of oldestFirst) {
      if (!pools.some((pool) => this.#options.memory.isOverfull(pool))) return
      // A model that a request is waking can't be stopped before that has ended.
      await model.loading?.catch(() => {})
      if (model.isEvictable) await this.evict(model)
    }
  }

  async #sleepOrStop(model: LoadedModel): Promise<void> {
    const { sleeper, onMove } = this.#options
    const { server } = model
    if (!server || !sleeper?.canSleep(model)) return this.evict(model)
    const leave = async () => {
      if (await sleeper.fallAsleep(model, server)) return
      model.server = server
      await this.evict(model)
    }
    for (const gone of [model, ...model.leave()]) onMove(gone, 'evicted')
    const leaving = leave()
    model.leaving = leaving
    try {
      await leaving
    } finally {
      if (model.leaving === leaving) model.leaving = undefined
    }
  }

  /**
   * Returns the first plan that evicts no protected model, and the time of `performance.now` from which none of its models is
   * protected. Undefined when all evictable models together do not suffice.
   */
  #nextPlan(room: MemoryRequest): NextPlan | undefined {
    const free = this.#freeFor(room)
    const idle = this.#evictable()
    const now = performance.now()
    const { sleeper } = this.#options
    const protectedUntil = ({ model }: EvictablePool) =>
      room.isLoad && sleeper?.canSleep(model) ? model.awakeUntil : model.protectedUntil
    const times = new Set(idle.map((one) => Math.max(now, protectedUntil(one))).concat(now))
    for (const at of [...times].toSorted((a, b) => a - b)) {
      const plan = chooseEviction(
        room,
        free,
        idle.filter((one) => protectedUntil(one) <= at),
      )
      if (plan) return { plan, at }
    }
    return undefined
  }

  /** Returns the free memory of each pool; of pools that don't qualify, less than any model needs. */
  #freeFor({ holder, pools }: MemoryRequest): number[] {
    const free = this.#options.memory.freeFor(holder)
    return pools ? free.map((mb, pool) => (pools.includes(pool) ? mb : Number.NEGATIVE_INFINITY)) : free
  }

  /** Reports a model as loading, so that gateways know how long its load will wait. */
  #reportWait(model: LoadedModel, until: number): void {
    if (model.memoryAt === until) return
    model.memoryAt = until
    model.loadPercent = 0
    this.#options.onMove(model, 'loading_model')
  }

  #shortage(room: MemoryRequest): string {
    const { neededMb, count } = room
    const gpus = this.#options.memory.gpus.length
    const most = Math.floor(freeMemoryOn(reachOf(this.#freeFor(room), this.#evictable()), count))
    if (gpus < 2) return `needs ${neededMb} MB; at most ${most} MB can be freed on this node`
    const where = count === 1 ? 'one GPU' : `${count} GPUs in equal parts`
    return `needs ${neededMb} MB on ${where}; at most ${most} MB can be freed that way on the ${gpus} GPUs of this node`
  }

  #evictable(): EvictablePool[] {
    const { memory, models } = this.#options
    return (
      [...models()]
        // An adapter has no memory of its own.
        .filter(({ isEvictable, base }) => isEvictable && !base)
        .map((model) => {
          const { modelKey, memoryMb, lastUsed } = model
          return { model, modelKey, memoryMb, lastUsed, heldByPool: memory.heldByPool(modelKey) }
        })
    )
  }

  /** Ends the reservation only when the process tree has exited and its memory is free. */
  #leave(model: LoadedModel, ended: Promise<void>): void {
    const leave = async () => {
      await ended
      await this.#untilBack(model)
      model.memoryMb = 0
      model.gpus = []
      model.sleepRamMb = 0
      this.release(model.modelKey)
    }
    const leaving = leave().finally(() => {
      if (model.leaving === leaving) model.leaving = undefined
    })
    model.leaving = leaving
    leaving.catch(() => {})
  }

  /** Waits without limit while the memory is known to be in use, and for `unknownMs` if its use is unknown. */
  async #untilBack({ modelKey, memoryMb, pids }: LoadedModel): Promise<void> {
    if (memoryMb === 0 || pids.length === 0) return
    const { meter, log } = this.#options
    const { pollMs, unknownMs } = this.#timeouts
    let { alarmMs } = this.#timeouts
    const startedAt = performance.now()
    let knownAt = startedAt
    for (;;) {
      const isBack = await meter.isBack(pids)
      if (isBack) return
      const now = performance.now()
      const seen = { model_key: modelKey, pids, memory_mb: memoryMb, s: Math.round((now - startedAt) / 1000) }
      if (isBack === false) knownAt = now
      else if (now - knownAt > unknownMs) {
        emit(log, 'memory.unmeasured', seen)
        return
      }
      if (now - startedAt > alarmMs) {
        emit(log, 'memory.retained', seen)
        alarmMs *= 2
      }
      await sleep(pollMs, undefined, { ref: false })
    }
  }
}

/** Returns, for each pool, the free memory plus the memory of its idle models. */
const reachOf = (freeByPool: readonly number[], idle: readonly PooledModel[]): number[] =>
  freeByPool.map((free, pool) => idle.reduce((sum, { heldByPool }) => sum + (heldByPool[pool] ?? 0), free))

/** Returns the pools with the most reachable memory, and every idle model in them. */
function largestEviction(
  count: number,
  reach: readonly number[],
  idle: readonly EvictablePool[],
): EvictionPlan<EvictablePool> {
  const pools = reach
    .map((mb, pool) => ({ mb, pool }))
    .toSorted((a, b) => b.mb - a.mb)
    .slice(0, count)
    .map(({ pool }) => pool)
  return {
    pools: pools.toSorted((a, b) => a - b),
    victims: idle.filter(({ heldByPool }) => pools.some((pool) => (heldByPool[pool] ?? 0) > 0)),
  }
}
