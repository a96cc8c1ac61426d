import { freeMemoryOn } from '../../domain/placement/gpu-capacity.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { Logger } from '../../platform/log.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import type { Serving } from '../../schemas/nodes/serving.ts'
import { emit } from '../events.ts'
import { type MemoryAllocator, NotEnoughMemoryError } from '../memory/allocator.ts'
import { fillsReservation, type MemoryMeter } from '../memory/meter.ts'
import type { ModelPeaks } from '../memory/model-peaks.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { ProtectedModels, WeightsCache } from '../weights/cache.ts'
import { StrayFileError } from './folder.ts'
import type { LoadedModel } from './loaded-model.ts'
import { EnvironmentError, type ModelLoader, type PreparedModel } from './loader.ts'
import { type ModelServer, ModelServerError } from './server.ts'
import { ModelUnavailableError } from './unavailable.ts'

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
}

/** Takes a model from its weights to a warm server. */
export class BringUp {
  readonly #options: BringUpOptions

  constructor(options: BringUpOptions) {
    this.#options = options
  }

  /**
   * Loads a model. When a load fails because of the weights, their digests are checked. Damaged files are downloaded
   * again, once; if the files are intact, the model is unusable. When a preferred engine fails or doesn't fit into the
   * free memory, the next one is tried.
   */
  async run(
    model: LoadedModel,
    { isAgain = false, skipped = [] }: { isAgain?: boolean; skipped?: readonly string[] } = {},
  ): Promise<ModelServer> {
    const { cache, log } = this.#options
    const { modelKey } = model
    let engine: string | undefined
    let isReplacement = false
    let serving: Serving | undefined
    try {
      const prepared = await this.#prepare(model, skipped)
      engine = prepared.profile.profile_id
      ;({ isReplacement } = prepared)
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
        return this.run(model, { isAgain: true, skipped })
      }
      if (!isReplacement || engine === undefined || this.#options.stopping.aborted) throw err
      // A lack of memory says nothing about the engine, so the next load tries it again.
      if (!isOutOfMemory(err)) model.avoidEngine(engine, serving)
      const message = err instanceof Error ? err.message : String(err)
      emit(log, 'model.engine_failed', { model_key: modelKey, profile: engine, err: message })
      await this.getRoom(this.#options.memoryAllocator.whenGone(model))
      return this.run(model, { isAgain, skipped: [...skipped, engine] })
    }
  }

  /** Waits for memory, which may take a long time to be freed. A stopping node does not wait. */
  getRoom<T>(waiting: Promise<T>): Promise<T> {
    return unlessAborted(waiting, this.#options.stopping).catch((err: unknown) => {
      throw err instanceof NotEnoughMemoryError ? new ModelUnavailableError('no_capacity', err.message) : err
    })
  }

  async #prepare(model: LoadedModel, skipped: readonly string[]): Promise<PreparedModel> {
    const { loader, stopping, inUse, onDisk, onMove } = this.#options
    try {
      return await loader.prepare(model.modelKey, {
        signal: stopping,
        keep: inUse,
        isAvoided: (engine, serving) => skipped.includes(engine) || model.avoidsEngine(engine, serving),
        onDownload: (progress) => {
          model.progress = progress
          onMove(model, 'downloading_model')
        },
      })
    } finally {
      await onDisk()
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
      const message = err instanceof Error ? err.message : String(err)
      emit(log, 'model.not_compared', { model_key: modelKey, err: message })
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
  }

  async #start(model: LoadedModel, prepared: PreparedModel): Promise<ModelServer> {
    const { cache, loader, memory, memoryAllocator, meter, stopping, onMove, measure } = this.#options
    const { cached, profile, context } = prepared
    const contextMb = meter.contextMb(cached.spec, profile, model.memoryMb, context)
    model.loadPercent = 0
    model.isWarmingUp = false
    onMove(model, 'loading_model')
    model.pids = []
    const startedAt = performance.now()
    try {
      const server = await loader.start(prepared, {
        ramMb: meter.ramLimitMb(cached.spec, profile, model.memoryMb, contextMb),
        contextMb,
        gpus: memory.devicesOf(model.modelKey),
        vramShare: meter.shareOf(model.memoryMb, model.gpus, profile),
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

/** Returns whether a load failed because this node has too little free memory. */
const isOutOfMemory = (err: unknown): boolean =>
  err instanceof ModelUnavailableError && err.code === 'no_capacity'
