import { setTimeout as sleep } from 'node:timers/promises'
import { freeMemoryOn } from '../../domain/placement/gpu-capacity.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { Logger } from '../../platform/log.ts'
import type { NodeModel, NodeModelSpec } from '../../schemas/nodes/node.ts'
import type { Serving } from '../../schemas/nodes/serving.ts'
import { emit } from '../events.ts'
import { type MemoryAllocator, NotEnoughMemoryError } from '../memory/allocator.ts'
import { fillsReservation, type MemoryMeter } from '../memory/meter.ts'
import type { ModelPeaks } from '../memory/model-peaks.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { CachedModel, ProtectedModels, WeightsCache } from '../weights/cache.ts'
import { AdapterRoom } from './adapter-room.ts'
import { AdapterServer } from './adapter-server.ts'
import { StrayFileError } from './folder.ts'
import type { LoadedModel } from './loaded-model.ts'
import { EnvironmentError, type ModelLoader, type PreparedModel, type PrepareOptions } from './loader.ts'
import { type ModelServer, ModelServerError, type RunningServer } from './server.ts'
import { ModelUnavailableError } from './unavailable.ts'
import { HEALTH_TIMEOUT_MS } from './upkeep.ts'

export interface BringUpOptions {
  cache: WeightsCache
  memory: MemoryReservations
  measured: ModelPeaks
  meter: MemoryMeter
  log: Logger
  loader: ModelLoader
  memoryAllocator: MemoryAllocator
  /** Aborts when the node stops. */
  stopping: AbortSignal
  /** Returns the models whose weights must stay on the disk. */
  inUse: ProtectedModels
  /** Called when files have been added to the disk or removed from it. */
  onDisk: () => Promise<void>
  onMove: (model: LoadedModel, state: NodeModel['state']) => void
  /** Called with a server before its model counts as loaded. */
  measure: (model: LoadedModel, server: ModelServer) => Promise<void>
  /** Loads the base of an adapter into a server that accepts adapters, and holds it. */
  holdBase: (modelKey: string, options: { isOwnEngine: boolean }) => Promise<HeldBase>
}

/** The base of an adapter, which can't be unloaded until this is disposed of. */
export interface HeldBase extends Disposable {
  readonly model: LoadedModel
  readonly server: ModelServer
}

/** Without this wait, one crash of a base would load the merged weights of each adapter that is on its way. */
const MAX_BACKOFF_WAIT_MS = 5_000
const BACKOFF_POLL_INTERVAL_MS = 250

/** Takes a model from its weights to a warm server. */
export class BringUp {
  readonly #options: BringUpOptions
  readonly #adapterRoom: AdapterRoom

  constructor(options: BringUpOptions) {
    this.#options = options
    this.#adapterRoom = new AdapterRoom({ ...options, getRoom: (waiting) => this.getRoom(waiting) })
  }

  /**
   * Loads a model: as an adapter of its base if it is served as one and its base accepts it, and with its own weights
   * otherwise.
   */
  async run(model: LoadedModel): Promise<RunningServer> {
    const { loader, log, stopping } = this.#options
    if (model.avoidsAdapter) return this.#runOwn(model)
    const found = await this.#withDisk(loader.findAdapter(model.modelKey, this.#fetching(model, [])))
    if (!found.adapter) return this.#runOwn(model, { now: found.now })
    try {
      return await this.#join(model, found)
    } catch (err) {
      if (stopping.aborted || isOutOfMemory(err)) throw err
      model.avoidAdapter()
      emit(log, 'model.adapter_failed', {
        model_key: model.modelKey,
        base_key: found.base_key,
        err: messageOf(err),
      })
      const server = await this.#runOwn(model)
      model.noteEngineFault(server.profile.profile_id, `as an adapter of its base: ${messageOf(err)}`)
      return server
    }
  }

  /** Loads a model into the server of its base. */
  async #join(
    model: LoadedModel,
    { adapter, base_key }: { adapter: CachedModel; base_key: string },
  ): Promise<RunningServer> {
    const { meter, onMove, measure } = this.#options
    model.loadPercent = 0
    onMove(model, 'loading_model')
    using base = await this.#holdBase(base_key, model.needsOwnEngine)
    const neededMb = meter.adapterMb(adapter.spec, base.server.profile)
    const server = await this.#adapterRoom.load(base.model, { model, neededMb }, () =>
      this.#loadAdapter(model, base, adapter),
    )
    if (neededMb > 0) await measure(base.model, base.server)
    return server
  }

  /** Holds the base of an adapter. If the server of the base has just died, waits until it may be loaded again. */
  async #holdBase(baseKey: string, isOwnEngine: boolean): Promise<HeldBase> {
    const { holdBase, stopping } = this.#options
    const until = performance.now() + MAX_BACKOFF_WAIT_MS
    for (;;) {
      try {
        return await holdBase(baseKey, { isOwnEngine })
      } catch (err) {
        const isBackingOff = err instanceof ModelUnavailableError && err.code === 'backing_off'
        if (!isBackingOff || performance.now() > until) throw err
      }
      await sleep(BACKOFF_POLL_INTERVAL_MS, undefined, { ref: false })
      stopping.throwIfAborted()
    }
  }

  async #loadAdapter(model: LoadedModel, base: HeldBase, adapter: CachedModel): Promise<RunningServer> {
    const { cache, stopping } = this.#options
    const startedAt = performance.now()
    const { profile } = base.server
    let server: AdapterServer | undefined
    try {
      server = await AdapterServer.load(base.server, model.modelKey, adapter)
      await server.probe(profile.warmup_input ?? adapter.spec.warmup_input, stopping)
      if (base.model.server !== base.server) throw new Error('its base has another server now')
    } catch (err) {
      await server?.stop()
      // The adapter is not at fault, so it isn't avoided from now on.
      if (base.model.server !== base.server || !(await base.server.isHealthy(HEALTH_TIMEOUT_MS)))
        throw new ModelUnavailableError('no_capacity', 'the server of its base has ended', err)
      throw err
    }
    model.join(base.model, server)
    model.lastUsed = Date.now()
    model.protect(performance.now() - startedAt)
    void cache.touch(adapter.spec.model_key)
    return server
  }

  /**
   * Loads a model with its own weights. When a load fails because of the weights, their digests are checked. Damaged
   * files are downloaded again, once; if the files are intact, the model is unusable. When a preferred engine fails or
   * doesn't fit into the free memory, the next one is tried.
   */
  async #runOwn(
    model: LoadedModel,
    {
      isAgain = false,
      skipped = [],
      now,
    }: { isAgain?: boolean; skipped?: readonly string[]; now?: NodeModelSpec | undefined } = {},
  ): Promise<ModelServer> {
    const { cache, log } = this.#options
    const { modelKey } = model
    let engine: string | undefined
    let isReplacement = false
    let isHost = false
    let serving: Serving | undefined
    try {
      const prepared = await this.#prepare(model, skipped, now)
      engine = prepared.profile.profile_id
      ;({ isReplacement } = prepared)
      isHost =
        acceptsAdapters(model, prepared.cached.spec) && (prepared.profile.adapters?.options.length ?? 0) > 0
      if (prepared.isBest) model.engineFault = undefined
      ;({ serving } = prepared.cached.spec)
      model.delayMs = prepared.environmentMs
      const convertedDir = await this.#convert(model, prepared)
      await this.#makeRoom(model, prepared)
      return await this.#start(model, { ...prepared, convertedDir })
    } catch (err) {
      if (err instanceof EnvironmentError)
        [engine, serving, isReplacement] = [err.profileId, err.serving, true]
      if (blamesWeights(err) && (await cache.dropIfDamaged(modelKey, this.#options.stopping))) {
        if (isAgain) throw new Error("this node's disk corrupts the weights stored on it", { cause: err })
        emit(log, 'model.weights_damaged', { model_key: modelKey })
        return this.#runOwn(model, { isAgain: true, skipped })
      }
      if (isHost && !isOutOfMemory(err) && !this.#options.stopping.aborted) {
        // The engine may not know adapters of this architecture, so it is tried without them.
        model.avoidAdapter()
        emit(log, 'model.adapters_refused', { model_key: modelKey, err: messageOf(err) })
        await this.getRoom(this.#options.memoryAllocator.whenGone(model))
        return this.#runOwn(model, { isAgain, skipped })
      }
      if (!isReplacement || engine === undefined || this.#options.stopping.aborted) throw err
      const message = messageOf(err)
      // A lack of memory says nothing about the engine, so the next load tries it again.
      if (isOutOfMemory(err)) model.noteEngineFault(engine, message)
      else model.avoidEngine(engine, serving, message)
      emit(log, 'model.engine_failed', { model_key: modelKey, profile: engine, err: message })
      await this.getRoom(this.#options.memoryAllocator.whenGone(model))
      return this.#runOwn(model, { isAgain, skipped: [...skipped, engine] })
    }
  }

  /** Waits for memory, which may take a long time to be freed. A stopping node does not wait. */
  getRoom<T>(waiting: Promise<T>): Promise<T> {
    return unlessAborted(waiting, this.#options.stopping).catch((err: unknown) => {
      throw err instanceof NotEnoughMemoryError
        ? new ModelUnavailableError('no_capacity', err.message, err)
        : err
    })
  }

  async #prepare(
    model: LoadedModel,
    skipped: readonly string[],
    now: NodeModelSpec | undefined,
  ): Promise<PreparedModel> {
    const { loader } = this.#options
    return this.#withDisk(loader.prepare(model.modelKey, { ...this.#fetching(model, skipped), now }))
  }

  /** Waits for work that may add files to the disk, and then for the list of models to include them. */
  async #withDisk<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } finally {
      await this.#options.onDisk()
    }
  }

  #fetching(model: LoadedModel, skipped: readonly string[]): PrepareOptions {
    const { stopping, inUse, onMove } = this.#options
    return {
      signal: stopping,
      keep: inUse,
      isAvoided: (engine, serving) => skipped.includes(engine) || model.avoidsEngine(engine, serving),
      onUnsuited: (engine, reason) => model.noteEngineFault(engine, reason),
      onDownload: (progress) => {
        model.progress = progress
        onMove(model, 'downloading_model')
      },
    }
  }

  /**
   * Runs the conversion for a model's server with its own memory reservation. An optional conversion may fail.
   */
  async #convert(model: LoadedModel, prepared: PreparedModel): Promise<string | undefined> {
    const { pending, profile, cached } = prepared
    if (!pending) return prepared.convertedDir
    const { meter, log, loader, memoryAllocator, stopping, inUse, onDisk, onMove } = this.#options
    const { modelKey } = model
    const holder = `conversion of ${modelKey}`
    const program = { ...profile, ...pending.convert }
    const needed = meter.estimateMb(cached.spec, program)
    model.loadPercent = 0
    onMove(model, 'loading_model')
    try {
      await this.getRoom(memoryAllocator.reserve(holder, needed, { signal: stopping, model }))
      return await loader.convert(prepared, pending, {
        ramMb: meter.ramLimitMb(cached.spec, program, needed),
        keep: inUse,
        stopping,
        onProgress: (percent) => (model.loadPercent = Math.min(99, Math.floor(percent))),
        onCompared: ({ file, difference, problem }) =>
          emit(log, 'model.compared', { model_key: modelKey, file, difference, problem }),
      })
    } catch (err) {
      if (pending.isNeeded || stopping.aborted) throw err
      emit(log, 'model.not_compared', { model_key: modelKey, err: messageOf(err) })
      return undefined
    } finally {
      memoryAllocator.release(holder)
      await onDisk()
    }
  }

  async #makeRoom(model: LoadedModel, { cached, profile, context }: PreparedModel): Promise<void> {
    const { measured, memory, meter, memoryAllocator, stopping } = this.#options
    const isFlexible = fillsReservation(profile)
    const peak = isFlexible ? undefined : measured.of(model.modelKey)
    const wanted = peak ?? meter.estimateMb(cached.spec, profile, context)
    const least = isFlexible ? meter.minMb(cached.spec, profile, context) : wanted
    const count = profile.tensor_parallel ?? 1
    // A server that can do with the free memory evicts no other model.
    const free = Math.floor(freeMemoryOn(memory.freeByPool, count))
    model.memoryMb = free >= least ? Math.min(wanted, free) : least
    try {
      const options = { count, signal: stopping, model }
      model.gpus = await this.getRoom(memoryAllocator.reserve(model.modelKey, model.memoryMb, options))
    } catch (err) {
      model.memoryMb = 0
      throw err
    }
    this.#grow(model, wanted)
  }

  /** Reserves more memory where the model already has some, because evictions may have freed more than was needed. */
  #grow(model: LoadedModel, wantedMb: number): void {
    const { memory } = this.#options
    const free = memory.freeFor(model.modelKey)
    const parts = memory.heldByPool(model.modelKey).flatMap((mb, pool) => (mb > 0 ? (free[pool] ?? 0) : []))
    const mostMb = Math.min(wantedMb, Math.floor(freeMemoryOn(parts, parts.length)))
    if (mostMb <= model.memoryMb) return
    model.memoryMb = mostMb
    memory.reserve(model.modelKey, mostMb)
  }

  async #start(model: LoadedModel, prepared: PreparedModel): Promise<ModelServer> {
    const { cache, loader, memory, memoryAllocator, meter, stopping, onMove, measure } = this.#options
    const { cached, profile, context } = prepared
    const contextMb = meter.contextMb(cached.spec, profile, model.memoryMb, context)
    model.loadPercent = 0
    model.isWarmingUp = false
    onMove(model, 'loading_model')
    model.pids = []
    model.weightsMb = meter.weightsMb(cached.spec)
    model.serving = cached.spec.serving
    model.forgetMemory()
    const startedAt = performance.now()
    try {
      const server = await loader.start(prepared, {
        ramMb: meter.ramLimitMb(cached.spec, profile, model.memoryMb, contextMb),
        contextMb,
        gpus: memory.devicesOf(model.modelKey),
        vramShare: meter.shareOf(model.memoryMb, model.gpus, profile),
        acceptsAdapters: acceptsAdapters(model, cached.spec),
        stopping,
        onPids: (pids) => model.sawPids(pids),
        onProgress: (percent) => (model.loadPercent = percent),
        onWarmUp: () => {
          model.isWarmingUp = true
          onMove(model, 'loading_model')
        },
      })
      await measure(model, server)
      model.server = server
      model.isReplaced = prepared.isReplacement
      model.lastUsed = Date.now()
      model.protect(performance.now() - startedAt)
      void cache.touch(model.modelKey)
      return server
    } catch (err) {
      memoryAllocator.releaseWhenFree(model)
      throw err
    }
  }
}

/** Returns whether a load failed because of the model's files: a server rejects them, or they point outside the folder. */
export const blamesWeights = (err: unknown): boolean =>
  err instanceof StrayFileError || (err instanceof ModelServerError && err.isUnusable)

/** Returns whether the server of a model is to accept adapters of it, even if that takes memory. */
const acceptsAdapters = (model: LoadedModel, { has_adapters = false }: NodeModelSpec): boolean =>
  !model.avoidsAdapter && (model.needsAdapters || has_adapters)

const messageOf = (err: unknown): string => (err instanceof Error ? err.message : String(err))

/** Returns whether a load failed because this node has too little free memory. */
const isOutOfMemory = (err: unknown): boolean =>
  err instanceof ModelUnavailableError && err.code === 'no_capacity'
