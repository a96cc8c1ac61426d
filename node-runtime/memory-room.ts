import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../platform/log.ts'
import { planEviction } from './eviction.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { MemoryLedger } from './memory-ledger.ts'
import type { MemoryMeter } from './memory-meter.ts'
import type { ModelServer } from './model-server.ts'
import { treeOf } from './process-table.ts'

export interface MemoryRoomOptions {
  memory: MemoryLedger
  meter: MemoryMeter
  log: Logger
  /** Every model of this node. */
  models: () => Iterable<LoadedModel>
  /** A model's server is on its way out; what it holds is not back yet. */
  onEvicted: (model: LoadedModel) => void
}

/** Not even without all idle models would there be room. */
export class NoRoomError extends Error {
  override readonly name = 'NoRoomError'
}

/** How often memory that does not come back is looked for. */
const MEMORY_POLL_MS = 250
const MEMORY_ALARM_MS = 10_000

/** This node's memory, made free for whoever needs it from idle models, least recently used first. */
export class MemoryRoom {
  readonly #options: MemoryRoomOptions

  constructor(options: MemoryRoomOptions) {
    this.#options = options
  }

  /**
   * Holds memory for a holder; resolves once whatever had to go for it is gone. Throws a `NoRoomError` when there is not
   * that much, and then nothing goes.
   */
  async hold(holder: string, neededMb: number): Promise<void> {
    const { memory } = this.#options
    const idle = this.#evictable()
    const victims = planEviction(neededMb, memory.freeMb, idle)
    if (!victims) {
      const most = idle.reduce((sum, { memoryMb }) => sum + memoryMb, memory.freeMb)
      throw new NoRoomError(`needs ${neededMb} MB; at most ${most} MB can be freed on this node`)
    }
    // Held before the victims are gone, so that nobody else counts the same room.
    memory.hold(holder, neededMb)
    try {
      await this.#evictAll(victims)
    } catch (err) {
      this.release(holder)
      throw err
    }
  }

  /**
   * `hold` for work that is here to be done with what there is: when even that is not enough, every idle model goes.
   * Gives the megabytes that are missing then.
   */
  async holdAnyway(holder: string, neededMb: number): Promise<number> {
    const { memory } = this.#options
    const idle = this.#evictable()
    const victims = planEviction(neededMb, memory.freeMb, idle) ?? idle
    const reachable = victims.reduce((sum, { memoryMb }) => sum + memoryMb, memory.freeMb)
    memory.hold(holder, neededMb)
    await this.#evictAll(victims)
    return Math.max(0, neededMb - reachable)
  }

  /** Forgets what somebody held, once its processes are known to be gone. */
  release(holder: string): void {
    this.#options.memory.release(holder)
  }

  /** `release` for a model. */
  giveUp(model: LoadedModel): void {
    model.memoryMb = 0
    this.release(model.modelKey)
  }

  #evictable(): LoadedModel[] {
    return [...this.#options.models()].filter(({ isEvictable }) => isEvictable)
  }

  async #evictAll(victims: readonly LoadedModel[]): Promise<void> {
    await Promise.all(victims.map((victim) => this.#evict(victim)))
  }

  /** The reservation ends only when the process tree is gone and what it held is back. */
  async #evict(model: LoadedModel): Promise<void> {
    const { server } = model
    if (!server) return
    model.server = undefined
    model.evicting = this.#end(model, server).finally(() => {
      model.evicting = undefined
      this.giveUp(model)
    })
    this.#options.onEvicted(model)
    await model.evicting
  }

  async #end({ modelKey }: LoadedModel, server: ModelServer): Promise<void> {
    const pid = await server.pid()
    const pids = pid === undefined ? [] : await treeOf(pid)
    await server.stop()
    let alarmAt = performance.now() + MEMORY_ALARM_MS
    while (pids.length > 0 && !(await this.#options.meter.isBack(pids))) {
      if (performance.now() > alarmAt) {
        this.#options.log.error({ model_key: modelKey, pids }, 'memory of a stopped model has not come back')
        alarmAt += MEMORY_ALARM_MS
      }
      await sleep(MEMORY_POLL_MS)
    }
  }
}
