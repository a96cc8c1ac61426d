import { isToolKey } from '../../domain/tools/catalog.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { Logger } from '../../platform/log.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import { MemoryAllocator, NotEnoughMemoryError } from '../memory/allocator.ts'
import type { MemoryMeter } from '../memory/meter.ts'
import type { ModelPeaks } from '../memory/model-peaks.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { ProcessExit } from '../processes/process-driver.ts'
import { DiskModels } from './disk-models.ts'
import { StrayFileError } from './folder.ts'
import { LoadedModel } from './loaded-model.ts'
import { ModelLoader, type ModelLoaderOptions, type PreparedModel } from './loader.ts'
import type { Pins } from './pins.ts'
import { reportOf } from './report.ts'
import { type ModelServer, ModelServerError } from './server.ts'
import { ROUND_INTERVAL_MS, Upkeep } from './upkeep.ts'

export interface ModelManagerOptions extends ModelLoaderOptions {
  memory: MemoryReservations
  measured: ModelPeaks
  meter: MemoryMeter
  pins: Pins
  /** Seconds without a request after which a loaded model is unloaded; 0 disables unloading. */
  idleUnloadS: number
  log: Logger
}

/** Thrown if a model is not available on this node now. */
export class ModelUnavailableError extends Error {
  override readonly name = 'ModelUnavailableError'
  readonly code: 'no_capacity' | 'load_failed' | 'unusable' | 'backing_off' | 'stopping'

  constructor(code: ModelUnavailableError['code'], message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** The right to use a loaded model. The model can't be evicted until this is disposed of. */
export interface ModelUse extends Disposable {
  readonly server: ModelServer
}

/** The grace period for requests in flight when the node stops. */
const STOP_GRACE_TIMEOUT_MS = 500

/**
 * Manages this node's models through the states cold -> downloading_model -> loading_model -> warm -> running -> idle
 * -> evicted. There is one load per model at a time. Models are evicted to make room for a load, the least recently
 * used idle one first, or once they have been idle for too long. No load evicts a recently loaded model.
 */
export class ModelManager implements AsyncDisposable {
  /** The memory of this node, for models and all other work. */
  readonly memoryAllocator: MemoryAllocator
  readonly disk: DiskModels
  readonly #options: ModelManagerOptions
  readonly #loader: ModelLoader
  readonly #models = new Map<string, LoadedModel>()
  readonly #listeners = new Set<(model: NodeModel) => void>()
  readonly #stopping = new AbortController()
  readonly #upkeep: Upkeep

  constructor(options: ModelManagerOptions) {
    this.#options = options
    this.#loader = new ModelLoader(options)
    this.memoryAllocator = new MemoryAllocator({
      ...options,
      models: () => this.#models.values(),
      onMove: (model, state) => this.#move(model, state),
    })
    const unload = (model: LoadedModel) => this.memoryAllocator.evict(model)
    this.disk = new DiskModels({
      ...options,
      models: this.#models,
      add: (modelKey) => this.#move(this.#add(modelKey, 'evicted'), 'evicted'),
      onGone: (model) => this.#move(model, 'cold'),
      unload,
    })
    const { pins, idleUnloadS } = options
    this.#upkeep = new Upkeep({
      models: () => this.#models.values(),
      idleMsOf: (modelKey) => pins.idleMs(modelKey),
      keepPinned: () => this.keepPinned(),
      syncDisk: () => this.disk.sync(),
      measure: (model, server) => this.#measure(model, server),
      unload,
      noteUse: ({ modelKey, lastUsed }) => options.cache.touch(modelKey, new Date(lastUsed)),
      log: options.log,
      ...(idleUnloadS > 0 && { everyMs: Math.min(ROUND_INTERVAL_MS, idleUnloadS * 1_000) }),
    })
  }

  /** Registers the models that earlier runs of this node left on disk. */
  async init(): Promise<void> {
    await this.#options.cache.init()
    await this.disk.sync()
  }

  report(): NodeModel[] {
    return reportOf(this.#models.values())
  }

  /** The keys of the loaded models that stay loaded, most recently used first. */
  stayingKeys(): string[] {
    const loaded = [...this.#models.values()].filter(({ isStaying }) => isStaying)
    return loaded.toSorted((a, b) => b.lastUsed - a.lastUsed).map(({ modelKey }) => modelKey)
  }

  /** Sets which loaded models have a queue that this node polls. The other models report that they have none. */
  setPolled(isPolled: (modelKey: string) => boolean): void {
    for (const model of this.#models.values()) model.isUnpolled = !isPolled(model.modelKey)
  }

  /** Registers a listener for the states of models, except `running` and `idle`, which change with each request. */
  onChange(listener: (model: NodeModel) => void): void {
    this.#listeners.add(listener)
  }

  /** Returns a loaded model for one request, or undefined; never waits. */
  use(modelKey: string): ModelUse | undefined {
    const model = this.#models.get(modelKey)
    const server = model?.server
    if (!model || !server || this.#stopping.signal.aborted) return undefined
    model.inFlight += 1
    return {
      server,
      [Symbol.dispose]: () => {
        model.inFlight -= 1
        model.lastUsed = Date.now()
        if (model.inFlight === 0 && model.server === server) model.state = 'idle'
      },
    }
  }

  /** Returns the state in which a request finds a model on this node. */
  startState(modelKey: string): 'resident' | 'cached' | 'cold' {
    const model = this.#models.get(modelKey)
    if (model?.server) return 'resident'
    return model?.state === 'evicted' || model?.state === 'loading_model' ? 'cached' : 'cold'
  }

  /** Returns how long the last load of a model waited for its environment and for the memory of protected models. */
  delayMs(modelKey: string): number {
    return Math.round(this.#models.get(modelKey)?.delayMs ?? 0)
  }

  /** Loads a model unless it is loaded. Concurrent callers share one load, which continues if a caller disconnects. */
  async load(modelKey: string): Promise<void> {
    if (isToolKey(modelKey))
      throw new ModelUnavailableError('no_capacity', 'this node does not have this tool')
    const model = this.#models.get(modelKey) ?? this.#add(modelKey, 'cold')
    if (model.server) {
      // The caller is about to use it, so it must not be unloaded as idle in between.
      model.lastUsed = Date.now()
      return
    }
    if (this.#stopping.signal.aborted) throw new ModelUnavailableError('stopping', 'this node is stopping')
    if (!model.loading && model.retryAt > Date.now()) {
      const wait = Math.ceil((model.retryAt - Date.now()) / 1000)
      throw new ModelUnavailableError(
        'backing_off',
        `the last load failed (${model.error}); next try in ${wait} s`,
      )
    }
    await (model.loading ??= this.#load(model))
  }

  /**
   * Stops the server of a model; returns the reason if it must not be stopped. On a draining node, requests in flight
   * do not prevent it.
   */
  async evict(modelKey: string, isDraining: boolean): Promise<string | undefined> {
    const model = this.#models.get(modelKey)
    if (model?.loading) return 'it is being loaded'
    if (!model?.server) return undefined
    if (this.#options.pins.has(modelKey)) return 'it is pinned to this node'
    if (model.inFlight > 0 && !isDraining) return `requests in progress: ${model.inFlight}`
    await this.memoryAllocator.evict(model)
    return undefined
  }

  /** Loads the pinned models that are not loaded. */
  keepPinned(): void {
    for (const key of this.#options.pins.keys) {
      // The error is in the log and in the model's report; the back-off prevents a new try at every inspection.
      if (this.startState(key) !== 'resident') this.load(key).catch(() => {})
    }
  }

  /** Stops every model server; a stopping node loads no more models. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort(new ModelUnavailableError('stopping', 'this node is stopping'))
    this.#upkeep[Symbol.dispose]()
    await Promise.all(
      [...this.#models.values()].map(async ({ loading, server }) => {
        await loading?.catch(() => {})
        await server?.stop({ graceMs: STOP_GRACE_TIMEOUT_MS })
      }),
    )
  }

  #add(modelKey: string, state: NodeModel['state']): LoadedModel {
    const model = new LoadedModel(modelKey, state, this.#options.pins)
    this.#models.set(modelKey, model)
    return model
  }

  async #load(model: LoadedModel): Promise<void> {
    const { cache, log } = this.#options
    const { modelKey } = model
    const startedAt = performance.now()
    try {
      // The model's last server may still be stopping and use its memory.
      await this.#getRoom(this.memoryAllocator.whenGone(model))
      await this.#bringUp(model)
    } catch (err) {
      const message = err instanceof Error ? err.message : String(err)
      const isUnusable = blamesWeights(err)
      // A lack of memory is temporary and is not a failure of the model.
      if (err instanceof ModelUnavailableError) model.progress = undefined
      else model.fail(message, { isUnusable })
      this.#move(model, (await cache.find(modelKey)) ? 'evicted' : 'cold')
      emit(log, 'model.load_failed', { model_key: modelKey, err: message })
      throw err instanceof ModelUnavailableError
        ? err
        : new ModelUnavailableError(isUnusable ? 'unusable' : 'load_failed', message, err)
    } finally {
      model.loading = undefined
    }
    model.succeed()
    this.#move(model, 'warm')
    emit(log, 'model.loaded', { model_key: modelKey, ms: Math.round(performance.now() - startedAt) })
  }

  /**
   * When a load fails because of the weights, their digests are checked. Damaged files are downloaded again, once; if
   * the files are intact, the model is unusable.
   */
  async #bringUp(model: LoadedModel, { isAgain = false } = {}): Promise<void> {
    const { cache, log } = this.#options
    const { modelKey } = model
    try {
      const prepared = await this.#prepare(model)
      model.delayMs = prepared.environmentMs
      const convertedDir = await this.#convert(model, prepared)
      await this.#makeRoom(model, prepared)
      await this.#start(model, { ...prepared, convertedDir })
    } catch (err) {
      if (!blamesWeights(err) || !(await cache.dropIfDamaged(modelKey, this.#stopping.signal))) throw err
      if (isAgain) throw new Error("this node's disk corrupts the weights stored on it", { cause: err })
      emit(log, 'model.weights_damaged', { model_key: modelKey })
      await this.#bringUp(model, { isAgain: true })
    }
  }

  async #prepare(model: LoadedModel): Promise<PreparedModel> {
    try {
      return await this.#loader.prepare(model.modelKey, {
        signal: this.#stopping.signal,
        keep: () => this.inUse(),
        onDownload: (progress) => {
          model.progress = progress
          this.#move(model, 'downloading_model')
        },
      })
    } finally {
      await this.disk.sync()
    }
  }

  /** Returns the models whose weights must stay on the disk. */
  inUse(): ReadonlySet<string> {
    const busy = [...this.#models.values()].filter(({ server, loading }) => server ?? loading !== undefined)
    return new Set([...busy.map(({ modelKey }) => modelKey), ...this.#options.pins.keys])
  }

  /**
   * Runs the conversion for a model's server with its own memory reservation. An optional conversion may fail.
   */
  async #convert(model: LoadedModel, prepared: PreparedModel): Promise<string | undefined> {
    const { pending, profile, cached } = prepared
    if (!pending) return prepared.convertedDir
    const { meter, log } = this.#options
    const { modelKey } = model
    const holder = `conversion of ${modelKey}`
    const program = { ...profile, ...pending.convert }
    const needed = meter.estimateMb(cached.spec, program)
    model.loadPercent = 0
    this.#move(model, 'loading_model')
    try {
      const options = { signal: this.#stopping.signal, model }
      await this.#getRoom(this.memoryAllocator.reserve(holder, needed, options))
      return await this.#loader.convert(prepared, pending, {
        ramMb: meter.ramLimitMb(cached.spec, program, needed),
        keep: () => this.inUse(),
        stopping: this.#stopping.signal,
        onProgress: (percent) => (model.loadPercent = Math.min(99, Math.floor(percent))),
        onCompared: ({ file, difference, problem }) =>
          emit(log, 'model.compared', { model_key: modelKey, file, difference, problem }),
      })
    } catch (err) {
      if (pending.isNeeded || this.#stopping.signal.aborted) throw err
      const message = err instanceof Error ? err.message : String(err)
      emit(log, 'model.not_compared', { model_key: modelKey, err: message })
      return undefined
    } finally {
      this.memoryAllocator.release(holder)
      await this.disk.sync()
    }
  }

  async #makeRoom(model: LoadedModel, { cached, profile }: PreparedModel): Promise<void> {
    const { measured, meter } = this.#options
    const needed = measured.of(model.modelKey) ?? meter.estimateMb(cached.spec, profile)
    model.memoryMb = needed
    try {
      const options = { count: profile.tensor_parallel ?? 1, signal: this.#stopping.signal, model }
      model.gpus = await this.#getRoom(this.memoryAllocator.reserve(model.modelKey, needed, options))
    } catch (err) {
      model.memoryMb = 0
      throw err
    }
  }

  /** Waits for memory, which may take a long time to be freed. A stopping node does not wait. */
  #getRoom<T>(waiting: Promise<T>): Promise<T> {
    return unlessAborted(waiting, this.#stopping.signal).catch((err: unknown) => {
      throw err instanceof NotEnoughMemoryError ? new ModelUnavailableError('no_capacity', err.message) : err
    })
  }

  async #start(model: LoadedModel, prepared: PreparedModel): Promise<void> {
    model.loadPercent = 0
    this.#move(model, 'loading_model')
    model.pids = []
    const startedAt = performance.now()
    try {
      const server = await this.#loader.start(prepared, {
        ramMb: this.#options.meter.ramLimitMb(prepared.cached.spec, prepared.profile, model.memoryMb),
        gpus: this.#options.memory.devicesOf(model.modelKey),
        stopping: this.#stopping.signal,
        onPids: (pids) => model.sawPids(pids),
        onProgress: (percent) => (model.loadPercent = percent),
        onWarmUp: () => {
          model.isWarmingUp = true
          this.#move(model, 'loading_model')
        },
      })
      await this.#measure(model, server)
      model.server = server
      model.lastUsed = Date.now()
      model.protect(performance.now() - startedAt)
      void server.exited.then((exit) => this.#died(model, server, exit))
    } catch (err) {
      this.memoryAllocator.releaseWhenFree(model)
      throw err
    }
    void this.#options.cache.touch(model.modelKey)
  }

  #died(model: LoadedModel, server: ModelServer, { code }: ProcessExit): void {
    if (model.server !== server || this.#stopping.signal.aborted) return
    model.server = undefined
    const how = code > 128 ? `on signal ${code - 128}` : `with status ${code}`
    model.fail(
      server.excess === undefined
        ? `the model server exited unexpectedly ${how}. ${server.lastWords || 'It had no output.'}`
        : `the node ended the model server: ${server.excess}`,
    )
    this.memoryAllocator.releaseWhenFree(model)
    this.#move(model, 'evicted')
    if (server.gpuFault !== undefined || server.profile.vram_mb > 0) this.#options.gpuHealth?.suspect()
    emit(this.#options.log, 'model.server_died', { model_key: model.modelKey, err: model.error })
  }

  async #measure(model: LoadedModel, server: ModelServer): Promise<void> {
    const pids = await server.pids()
    const peak = pids.length ? Math.ceil(await this.#options.meter.measureMb(pids, server.profile)) : 0
    if (model.server === server || model.loading) model.sawPids(pids)
    if (peak === 0 || (model.server !== server && !model.loading)) return
    model.memoryMb = peak
    this.#options.memory.reserve(model.modelKey, peak)
    this.#options.measured.note(model.modelKey, peak)
  }

  #move(model: LoadedModel, state: NodeModel['state']): void {
    if (state !== 'loading_model') model.isWarmingUp = false
    model.state = state
    const report = model.report()
    for (const listener of this.#listeners) listener(report)
    if (state === 'cold' && model.error === undefined && !model.loading) this.#models.delete(model.modelKey)
  }
}

/** Returns whether a load failed because of the model's files: a server rejects them, or they point outside the folder. */
const blamesWeights = (err: unknown): boolean =>
  err instanceof StrayFileError || (err instanceof ModelServerError && err.isUnusable)
