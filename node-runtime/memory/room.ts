import { setTimeout as sleep } from 'node:timers/promises'
import { roomOn } from '../../domain/placement/gpu-room.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { Logger } from '../../platform/log.ts'
import type { LoadedModel } from '../models/loaded-model.ts'
import { planRoom, type PooledModel, type RoomPlan } from './eviction.ts'
import type { MemoryLedger } from './ledger.ts'
import type { MemoryMeter } from './meter.ts'

export interface MemoryRoomOptions {
  memory: MemoryLedger
  meter: MemoryMeter
  log: Logger
  /** Every model of this node. */
  models: () => Iterable<LoadedModel>
  /** A model's server is on its way out, and what it holds is not back yet; or it could not be ended after all. */
  onMove: (model: LoadedModel, state: 'evicted' | 'idle') => void
  patience?: Patience
}

/** How long memory is waited for that does not come back, in milliseconds. */
export interface Patience {
  /** Between two looks. */
  pollMs: number
  /** Until operators hear of it for the first time; each further time takes twice as long. */
  alarmMs: number
  /** Until a reservation goes although nobody can tell whether the memory is back. */
  untoldMs: number
  /** Until whoever needs the memory is told that there is no room. */
  waitMs: number
}

/** Not even without all idle models would there be room. */
export class NoRoomError extends Error {
  override readonly name = 'NoRoomError'
}

type Evictable = PooledModel & { readonly model: LoadedModel }

const PATIENCE: Patience = { pollMs: 250, alarmMs: 10_000, untoldMs: 30_000, waitMs: 60_000 }

/** This node's memory, made free for whoever needs it from idle models, least recently used first. */
export class MemoryRoom {
  readonly #options: MemoryRoomOptions
  readonly #patience: Patience

  constructor(options: MemoryRoomOptions) {
    this.#options = options
    this.#patience = options.patience ?? PATIENCE
  }

  /**
   * Holds memory for a holder, on one GPU or in equal parts on several, and gives the numbers of these; resolves once
   * whatever had to go for it is gone. Throws a `NoRoomError` when there is not that much, and then nothing goes, or when
   * it does not come back.
   */
  async hold(holder: string, neededMb: number, count = 1): Promise<readonly number[]> {
    const { memory } = this.#options
    const idle = this.#evictable()
    const plan = planRoom({ neededMb, count }, memory.freeByPool, idle)
    if (!plan) throw new NoRoomError(shortage({ neededMb, count }, reachOf(memory, idle), memory.gpus.length))
    // Held before the victims are gone, so that nobody else counts the same room.
    memory.hold(holder, neededMb, plan.pools)
    try {
      await Promise.all(plan.victims.map(({ model }) => this.#evict(model)))
    } catch (err) {
      this.release(holder)
      throw err
    }
    return memory.gpusOf(holder)
  }

  /**
   * `hold` for work that is here to be done with what there is: when even that is not enough, every idle model goes where
   * there is most. Gives the megabytes that are missing then.
   */
  async holdAnyway(holder: string, neededMb: number, count = 1): Promise<number> {
    const { memory } = this.#options
    const idle = this.#evictable()
    const free = memory.freeByPool
    const { pools, victims } =
      planRoom({ neededMb, count }, free, idle) ?? mostRoom(count, reachOf(memory, idle), idle)
    const left = new Map(pools.map((pool) => [pool, free[pool] ?? 0]))
    memory.hold(holder, neededMb, pools)
    await Promise.all(
      victims.map(async ({ model, heldByPool }) => {
        const isGone = await this.#evict(model).then(
          () => true,
          () => false,
        )
        if (isGone) for (const [pool, mb] of left) left.set(pool, mb + (heldByPool[pool] ?? 0))
      }),
    )
    const partMb = neededMb / pools.length
    return Math.ceil([...left.values()].reduce((sum, mb) => sum + Math.max(0, partMb - mb), 0))
  }

  /** Forgets what somebody held, once its processes are known to be gone. */
  release(holder: string): void {
    this.#options.memory.release(holder)
  }

  /** Gives up what a model holds whose processes are gone, as soon as their memory is back. */
  giveUp(model: LoadedModel): void {
    this.#leave(model, Promise.resolve())
  }

  /** Waits until nothing is left of a model's last server; throws a `NoRoomError` when that takes too long. */
  async whenGone({ modelKey, leaving }: LoadedModel): Promise<void> {
    if (!leaving) return
    const timeout = AbortSignal.timeout(this.#patience.waitMs)
    await unlessAborted(leaving, timeout).catch((err: unknown) => {
      throw timeout.aborted ? new NoRoomError(`the memory of ${modelKey}, which has ended, is not back`) : err
    })
  }

  #evictable(): Evictable[] {
    const { memory, models } = this.#options
    return [...models()]
      .filter(({ isEvictable }) => isEvictable)
      .map((model) => {
        const { modelKey, memoryMb, lastUsed } = model
        return { model, modelKey, memoryMb, lastUsed, heldByPool: memory.heldByPool(modelKey) }
      })
  }

  async #evict(model: LoadedModel): Promise<void> {
    const { server } = model
    if (!server) return
    const end = async () => {
      try {
        model.sawPids(await server.pids())
        await server.stop()
      } catch (err) {
        // It holds what it held, and is there to be evicted another time.
        model.server = server
        this.#options.onMove(model, 'idle')
        throw err
      }
    }
    model.server = undefined
    this.#options.onMove(model, 'evicted')
    this.#leave(model, end())
    await this.whenGone(model)
  }

  /** The reservation ends only when the process tree is gone and what it held is back. */
  #leave(model: LoadedModel, ended: Promise<void>): void {
    const leave = async () => {
      await ended
      await this.#untilBack(model)
      model.memoryMb = 0
      model.gpus = []
      this.release(model.modelKey)
    }
    model.leaving = leave().finally(() => {
      model.leaving = undefined
    })
    model.leaving.catch(() => {})
  }

  /** Memory that is seen to be held is waited for without end; memory that nobody can see is not. */
  async #untilBack({ modelKey, memoryMb, pids }: LoadedModel): Promise<void> {
    if (memoryMb === 0 || pids.length === 0) return
    const { meter, log } = this.#options
    const { pollMs, untoldMs } = this.#patience
    let { alarmMs } = this.#patience
    const startedAt = performance.now()
    let toldAt = startedAt
    for (;;) {
      const isBack = await meter.isBack(pids)
      if (isBack) return
      const now = performance.now()
      const seen = { model_key: modelKey, pids, memory_mb: memoryMb, s: Math.round((now - startedAt) / 1000) }
      if (isBack === false) toldAt = now
      else if (now - toldAt > untoldMs) {
        log.error(seen, 'nobody can tell whether the memory of a stopped model is back: it counts as free')
        return
      }
      if (now - startedAt > alarmMs) {
        log.error(seen, 'memory of a stopped model has not come back')
        alarmMs *= 2
      }
      await sleep(pollMs, undefined, { ref: false })
    }
  }
}

/** What each pool has free, and would have without its idle models. */
const reachOf = ({ freeByPool }: MemoryLedger, idle: readonly PooledModel[]): number[] =>
  freeByPool.map((free, pool) => idle.reduce((sum, { heldByPool }) => sum + (heldByPool[pool] ?? 0), free))

/** The pools with most within reach, and all that is idle there. */
function mostRoom(count: number, reach: readonly number[], idle: readonly Evictable[]): RoomPlan<Evictable> {
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

function shortage(
  { neededMb, count }: { neededMb: number; count: number },
  reach: readonly number[],
  gpus: number,
): string {
  const most = Math.floor(roomOn(reach, count))
  if (gpus < 2) return `needs ${neededMb} MB; at most ${most} MB can be freed on this node`
  const where = count === 1 ? 'one GPU' : `${count} GPUs in equal parts`
  return `needs ${neededMb} MB on ${where}; at most ${most} MB can be freed so on the ${gpus} GPUs of this node`
}
