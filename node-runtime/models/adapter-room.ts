import { freeMemoryOn } from '../../domain/placement/gpu-capacity.ts'
import type { MemoryAllocator } from '../memory/allocator.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { LoadedModel } from './loaded-model.ts'
import { ModelUnavailableError } from './unavailable.ts'

export interface AdapterRoomOptions {
  memory: MemoryReservations
  memoryAllocator: MemoryAllocator
  /** Waits for memory; a stopping node does not wait. */
  getRoom: <T>(waiting: Promise<T>) => Promise<T>
  /** Aborts when the node stops. */
  stopping: AbortSignal
}

interface AdapterNeed {
  /** The model that becomes an adapter of the base. */
  readonly model: LoadedModel
  /** Memory beyond the reservation of the base's server. */
  readonly neededMb: number
}

/** The maximum number of adapters in one server. */
const MAX_ADAPTERS = 64

/**
 * Gives adapters a slot and memory in the server of their base. The reservation of the base grows with its adapters, because
 * they are in its processes.
 */
export class AdapterRoom {
  readonly #options: AdapterRoomOptions
  /** By base, the last load of an adapter. */
  readonly #loads = new WeakMap<LoadedModel, Promise<unknown>>()

  constructor(options: AdapterRoomOptions) {
    this.#options = options
  }

  /**
   * Loads an adapter once its base has room for it. Idle adapters of the base are unloaded for it first, least recently used
   * first, and then other idle models. Throws a `ModelUnavailableError` if that is not enough. The adapters of a base are
   * loaded one after another: its server can't load them faster, and no two count the same room.
   */
  load<T>(base: LoadedModel, need: AdapterNeed, load: () => Promise<T>): Promise<T> {
    const loading = (this.#loads.get(base) ?? Promise.resolve()).then(() => this.#load(base, need, load))
    this.#loads.set(
      base,
      loading.catch(() => {}),
    )
    return loading
  }

  async #load<T>(base: LoadedModel, need: AdapterNeed, load: () => Promise<T>): Promise<T> {
    const { neededMb, model } = need
    try {
      await this.#takeSlot(base)
      if (neededMb > 0) await this.#reserve(base, need)
    } catch (err) {
      if (err instanceof ModelUnavailableError && err.code === 'no_capacity') model.postpone(err.message)
      throw err
    }
    try {
      const loaded = await load()
      model.adapterMb = neededMb
      return loaded
    } catch (err) {
      // The server may have used the memory nevertheless.
      base.vacantMb += neededMb
      throw err
    } finally {
      base.incomingMb = 0
    }
  }

  async #takeSlot(base: LoadedModel): Promise<void> {
    while (base.adapters.size >= MAX_ADAPTERS) {
      if (!(await this.#unloadOldest(base)))
        throw new ModelUnavailableError('no_capacity', `its base has ${MAX_ADAPTERS} adapters in use`)
    }
  }

  async #reserve(base: LoadedModel, { model, neededMb }: AdapterNeed): Promise<void> {
    const { memory, memoryAllocator, getRoom, stopping } = this.#options
    const { modelKey } = base
    const pools = memory.gpus.length > 0 ? memory.gpusOf(modelKey) : [0]
    const wantedMb = () => memory.heldBy(modelKey) + Math.max(0, neededMb - base.vacantMb)
    const freeMb = () => {
      const free = memory.freeFor(modelKey)
      return freeMemoryOn(
        pools.map((pool) => free[pool] ?? 0),
        pools.length,
      )
    }
    while (wantedMb() > freeMb() && (await this.#unloadOldest(base)));
    const reserving = memoryAllocator.reserve(modelKey, wantedMb(), {
      count: pools.length,
      pools,
      model,
      signal: stopping,
    })
    base.incomingMb = neededMb
    try {
      await getRoom(reserving)
    } catch (err) {
      base.incomingMb = 0
      throw err
    }
    base.memoryMb = memory.heldBy(modelKey)
    base.vacantMb = Math.max(0, base.vacantMb - neededMb)
    base.hasHeldAdapters = true
  }

  /** Unloads the least recently used idle adapter of a base; returns false if there is none. */
  async #unloadOldest({ adapters }: LoadedModel): Promise<boolean> {
    const [oldest] = [...adapters]
      .filter(({ isEvictable }) => isEvictable)
      .toSorted((a, b) => a.lastUsed - b.lastUsed)
    if (!oldest) return false
    await this.#options.memoryAllocator.evict(oldest)
    return true
  }
}
