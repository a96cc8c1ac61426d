import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../../platform/log.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import { type MemoryAllocator, NotEnoughMemoryError } from '../memory/allocator.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { WeightsCache } from '../weights/cache.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { ModelLoader } from './loader.ts'
import { type ModelServer, ModelServerError } from './server.ts'
import { isAsleep } from './sleeper.ts'

export interface WakerOptions {
  loader: Pick<ModelLoader, 'currentSpec'>
  cache: Pick<WeightsCache, 'find' | 'touch'>
  memory: MemoryReservations
  memoryAllocator: MemoryAllocator
  /** Returns whether a model needs another server. */
  isUnsuited: (model: LoadedModel, server: ModelServer) => boolean
  /** Waits for memory; a stopping node does not wait. */
  getRoom: <T>(waiting: Promise<T>) => Promise<T>
  onMove: (model: LoadedModel, state: NodeModel['state']) => void
  measure: (model: LoadedModel, server: ModelServer) => Promise<void>
  /** Aborts when the node stops. */
  stopping: AbortSignal
  log: Logger
}

const WAKE_TIMEOUT_MS = 60_000
const STATE_TIMEOUT_MS = 10_000
const PROBE_TIMEOUT_MS = 60_000

/** Wakes sleeping models. */
export class Waker {
  readonly #options: WakerOptions

  constructor(options: WakerOptions) {
    this.#options = options
  }

  /**
   * Wakes the server of a sleeping model once there is room on its GPUs. Returns false if the model has to be loaded
   * instead; its server has then been stopped.
   */
  async wake(model: LoadedModel): Promise<boolean> {
    const { sleeping } = model
    if (!sleeping) return false
    const { isUnsuited, getRoom, memoryAllocator, stopping, log } = this.#options
    const { modelKey } = model
    const startedAt = performance.now()
    if (
      !isUnsuited(model, sleeping.server) &&
      (await this.#isCurrent(model)) &&
      (await this.#makeRoom(model))
    ) {
      try {
        await this.#wakeServer(model)
        model.protect(performance.now() - startedAt)
        emit(log, 'model.woken', { model_key: modelKey, ms: Math.round(performance.now() - startedAt) })
        return true
      } catch (err) {
        stopping.throwIfAborted()
        const message = err instanceof Error ? err.message : String(err)
        emit(log, 'model.wake_failed', { model_key: modelKey, err: message })
      }
    }
    await getRoom(memoryAllocator.evict(model))
    // Its server may have exited by itself, and its memory may not be free yet.
    await getRoom(memoryAllocator.whenGone(model))
    // If it exited during the wait for room, that room is still reserved.
    memoryAllocator.release(modelKey)
    return false
  }

  /** Returns whether a model's files are on the disk, and its settings have not changed as far as gateways respond. */
  async #isCurrent({ modelKey, serving }: LoadedModel): Promise<boolean> {
    const { cache, loader, stopping } = this.#options
    if (!(await cache.find(modelKey))) return false
    const spec = await loader.currentSpec(modelKey, stopping)
    return spec === undefined || isDeepStrictEqual(spec.serving, serving)
  }

  /**
   * Reserves the memory of an awake model on the GPUs of its server. Returns false if it only fits on other GPUs; throws
   * if it fits nowhere, so that the model can be woken later.
   */
  async #makeRoom(model: LoadedModel): Promise<boolean> {
    const { memory, memoryAllocator, getRoom, stopping } = this.#options
    const { modelKey, sleeping } = model
    if (!sleeping) return false
    const pools = memory.gpusOf(modelKey)
    const reserving = memoryAllocator.reserve(modelKey, sleeping.awakeMb, {
      count: pools.length,
      pools,
      model,
      signal: stopping,
    })
    try {
      await getRoom(reserving)
      return model.sleeping === sleeping
    } catch (err) {
      const isFull = err instanceof Error && err.cause instanceof NotEnoughMemoryError
      if (isFull && memoryAllocator.canReserve(modelKey, sleeping.awakeMb, pools.length)) return false
      throw err
    }
  }

  async #wakeServer(model: LoadedModel): Promise<void> {
    const { cache, onMove, measure, stopping } = this.#options
    const { sleeping } = model
    const routes = sleeping?.server.profile.sleep
    if (!sleeping || !routes) throw new Error('its server does not sleep')
    const { server, awakeMb } = sleeping
    model.memoryMb = awakeMb
    model.loadPercent = 0
    onMove(model, 'loading_model')
    const signalOf = (ms: number) => AbortSignal.any([stopping, AbortSignal.timeout(ms)])
    await server.control('POST', routes.wake, signalOf(WAKE_TIMEOUT_MS))
    if (await isAsleep(server, routes, signalOf(STATE_TIMEOUT_MS)))
      throw new ModelServerError('it reports that it still sleeps')
    model.isWarmingUp = true
    onMove(model, 'loading_model')
    const probed = await server.probeAgain(PROBE_TIMEOUT_MS)
    if (probed !== 'passed')
      throw new ModelServerError(typeof probed === 'object' ? probed.error : 'it does not answer')
    await measure(model, server)
    if (model.sleeping !== sleeping) throw new Error('its server exited')
    model.sleeping = undefined
    model.server = server
    model.lastUsed = Date.now()
    void cache.touch(model.modelKey)
  }
}
