import { setTimeout as sleep } from 'node:timers/promises'
import { isToolKey } from '../../domain/tools/catalog.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import { MemoryAllocator } from '../memory/allocator.ts'
import { fillsReservation, type MemoryMeter } from '../memory/meter.ts'
import type { ModelPeaks } from '../memory/model-peaks.ts'
import type { SleepRam } from '../memory/ram.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { ProcessExit } from '../processes/process-driver.ts'
import { adapterKey } from '../weights/keys.ts'
import { BringUp, blamesWeights, type HeldBase } from './bring-up.ts'
import { DiskModels } from './disk-models.ts'
import { LoadedModel } from './loaded-model.ts'
import { ModelLoader, type ModelLoaderOptions } from './loader.ts'
import type { Pins } from './pins.ts'
import { reportOf } from './report.ts'
import { ModelServer, type RunningServer } from './server.ts'
import { Sleeper } from './sleeper.ts'
import { ModelUnavailableError } from './unavailable.ts'
import { ROUND_INTERVAL_MS, Upkeep } from './upkeep.ts'
import { Waker } from './waker.ts'

export interface ModelManagerOptions extends ModelLoaderOptions {
  memory: MemoryReservations
  measured: ModelPeaks
  meter: MemoryMeter
  pins: Pins
  /** The RAM for sleeping models. */
  ram: SleepRam
  /** Seconds without a request after which a loaded model is unloaded; 0 disables unloading. */
  idleUnloadS: number
}

/** The right to use a loaded model. The model can't be evicted until this is disposed of. */
export interface ModelUse extends Disposable {
  readonly server: RunningServer
}

export interface LoadOptions {
  isOwnEngine?: boolean
  needsAdapters?: boolean
}

/** The time for which a change of engines waits for the requests in flight. */
const OWN_ENGINE_WAIT_TIMEOUT_MS = 60_000
/** The same for a restart that only adapters need. */
const ADAPTERS_WAIT_TIMEOUT_MS = 10_000
const OWN_ENGINE_POLL_INTERVAL_MS = 100
/** The grace period for requests in flight when the node stops. */
const STOP_GRACE_TIMEOUT_MS = 500

/**
 * Manages this node's models through the states cold -> downloading_model -> loading_model -> warm -> running -> idle
 * -> evicted. There is one load per model at a time. Models are evicted to make room for a load, the least recently
 * used idle one first, or once they have been idle for too long. No load evicts a recently loaded model. An evicted
 * model whose server can sleep keeps it, so that the next request only has to wake it.
 */
export class ModelManager implements AsyncDisposable {
  /** The memory of this node, for models and all other work. */
  readonly memoryAllocator: MemoryAllocator
  readonly disk: DiskModels
  readonly #options: ModelManagerOptions
  readonly #bringUp: BringUp
  readonly #sleeper: Sleeper
  readonly #waker: Waker
  readonly #models = new Map<string, LoadedModel>()
  readonly #listeners = new Set<(model: NodeModel) => void>()
  readonly #stopping = new AbortController()
  readonly #upkeep: Upkeep

  constructor(options: ModelManagerOptions) {
    this.#options = options
    const models = () => this.#models.values()
    const onMove = (model: LoadedModel, state: NodeModel['state']) => this.#move(model, state)
    const measure = (model: LoadedModel, server: RunningServer) => this.#measure(model, server)
    const unload = (model: LoadedModel) => this.memoryAllocator.evict(model)
    const stopping = this.#stopping.signal
    this.#sleeper = new Sleeper({ ...options, models, evict: unload, onMove, stopping })
    this.memoryAllocator = new MemoryAllocator({ ...options, models, onMove, sleeper: this.#sleeper })
    this.disk = new DiskModels({
      ...options,
      models: this.#models,
      add: (modelKey) => this.#move(this.#add(modelKey, 'evicted'), 'evicted'),
      onGone: (model) => this.#move(model, 'cold'),
      unload,
    })
    const { memoryAllocator } = this
    const loader = new ModelLoader(options)
    const bringUp = new BringUp({
      ...options,
      loader,
      memoryAllocator,
      stopping,
      inUse: () => this.inUse(),
      onDisk: () => this.disk.sync(),
      onMove,
      measure,
      holdBase: (modelKey, needs) => this.#holdBase(modelKey, needs),
    })
    this.#bringUp = bringUp
    this.#waker = new Waker({
      ...options,
      loader,
      memoryAllocator,
      isUnsuited,
      getRoom: (waiting) => bringUp.getRoom(waiting),
      onMove,
      measure,
      stopping,
    })
    const { pins, idleUnloadS } = options
    this.#upkeep = new Upkeep({
      models,
      idleMsOf: (modelKey) => pins.idleMs(modelKey),
      keepPinned: () => this.keepPinned(),
      syncDisk: () => this.disk.sync(),
      relieveRam: () => this.#sleeper.relieve(),
      measure,
      unload,
      noteUse: async ({ modelKey, base, lastUsed }) =>
        options.cache.touch(base ? adapterKey(modelKey) : modelKey, new Date(lastUsed)),
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
    const used = model.base ? [model, model.base] : [model]
    if (used.some(({ isReturning }) => isReturning)) return undefined
    const servers = used.map((one) => one.server)
    for (const one of used) one.inFlight += 1
    return {
      server,
      [Symbol.dispose]: () => {
        for (const [index, one] of used.entries()) {
          one.inFlight -= 1
          one.lastUsed = Date.now()
          if (one.inFlight === 0 && one.server === servers[index]) one.state = 'idle'
        }
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

  /**
   * Loads a model unless it is loaded. Concurrent callers share one load, which continues if a caller disconnects. With
   * `isOwnEngine`, the model is served with the profile of its version from now on, even if this node prefers another. With
   * `needsAdapters`, its server accepts adapters.
   */
  async load(modelKey: string, options: LoadOptions = {}): Promise<void> {
    if (isToolKey(modelKey))
      throw new ModelUnavailableError('no_capacity', 'this node does not have this tool')
    const model = this.#models.get(modelKey) ?? this.#add(modelKey, 'cold')
    for (const one of [model, model.base]) if (options.isOwnEngine && one) one.needsOwnEngine = true
    if (options.needsAdapters && !model.avoidsAdapter) model.needsAdapters = true
    if (model.server && !mustReturn(model)) {
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
    // The load may have begun before the model needed its own engine or adapters.
    if (mustReturn(model)) await this.load(modelKey, options)
  }

  /**
   * Stops the server of a model, even if it sleeps; returns the reason if it must not be stopped. On a draining node,
   * requests in flight do not prevent it.
   */
  async evict(modelKey: string, isDraining: boolean): Promise<string | undefined> {
    const model = this.#models.get(modelKey)
    // A model that is falling asleep can only be stopped afterwards.
    if (model) await this.memoryAllocator.whenGone(model)
    if (model?.loading) return 'it is being loaded'
    if (!model?.server && !model?.sleeping) return undefined
    if (model.isPinned)
      return `${this.#options.pins.has(modelKey) ? 'it' : 'an adapter of it'} is pinned to this node`
    // The base keeps answering, so requests of an adapter that is gone would get errors.
    if (model.inFlight > 0 && (!isDraining || model.base)) return `requests in progress: ${model.inFlight}`
    await this.memoryAllocator.evict(model)
    return undefined
  }

  /** Stops the sleeping models of a draining node, because no request will wake them. */
  endSleep(): Promise<void> {
    return this.#sleeper.endAll()
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
      [...this.#models.values()].map(async (model) => {
        const { loading, server = model.sleeping?.server } = model
        await loading?.catch(() => {})
        await server?.stop({ graceMs: STOP_GRACE_TIMEOUT_MS })
      }),
    )
  }

  /**
   * Stops a server that doesn't suit the model's work, once its requests have ended; until then it gets no new ones. Throws
   * if they take too long. Adapters then have to do without it.
   */
  async #leaveServer(model: LoadedModel): Promise<void> {
    const isForAdapters = !model.base && !(model.isReplaced && model.needsOwnEngine)
    model.isReturning = true
    try {
      const waitMs = isForAdapters ? ADAPTERS_WAIT_TIMEOUT_MS : OWN_ENGINE_WAIT_TIMEOUT_MS
      const until = performance.now() + waitMs
      while (model.inFlight > 0) {
        if (performance.now() > until) {
          if (!isForAdapters)
            throw new ModelUnavailableError(
              'no_capacity',
              'its requests on another engine take too long to end',
            )
          model.avoidAdapter()
          throw new ModelUnavailableError(
            'load_failed',
            'its server accepts no adapters, and its requests take too long',
          )
        }
        await sleep(OWN_ENGINE_POLL_INTERVAL_MS, undefined, { ref: false })
        this.#stopping.signal.throwIfAborted()
      }
      await this.#bringUp.getRoom(this.memoryAllocator.evict(model))
    } finally {
      model.isReturning = false
    }
  }

  /** Loads the base of an adapter, and holds it. */
  async #holdBase(modelKey: string, { isOwnEngine }: { isOwnEngine: boolean }): Promise<HeldBase> {
    await this.load(modelKey, { isOwnEngine, needsAdapters: true })
    const [model, use] = [this.#models.get(modelKey), this.use(modelKey)]
    if (model && use?.server instanceof ModelServer)
      return { model, server: use.server, [Symbol.dispose]: () => use[Symbol.dispose]() }
    use?.[Symbol.dispose]()
    throw new ModelUnavailableError('no_capacity', 'its base was evicted before the adapter was loaded')
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
    if (mustReturn(model)) {
      await this.#leaveServer(model).catch((err: unknown) => {
        model.loading = undefined
        throw err
      })
    }
    try {
      // The model's last server may still be stopping and use its memory.
      await this.#bringUp.getRoom(this.memoryAllocator.whenGone(model))
      if (!(await this.#waker.wake(model))) {
        const server = await this.#bringUp.run(model)
        void server.exited.then((exit) => this.#died(model, server, exit))
        emit(log, 'model.loaded', { model_key: modelKey, ms: Math.round(performance.now() - startedAt) })
      }
    } catch (err) {
      const message = err instanceof Error ? err.message : String(err)
      const isUnusable = blamesWeights(err)
      // A lack of memory is temporary and is not a failure of the model.
      if (err instanceof ModelUnavailableError) model.progress = undefined
      else model.fail(message, { isUnusable })
      const isOnDisk = (await cache.find(modelKey)) ?? (await cache.find(adapterKey(modelKey)))
      this.#move(model, isOnDisk ? 'evicted' : 'cold')
      emit(log, 'model.load_failed', { model_key: modelKey, err: message })
      throw err instanceof ModelUnavailableError
        ? err
        : new ModelUnavailableError(isUnusable ? 'unusable' : 'load_failed', message, err)
    } finally {
      model.loading = undefined
    }
    model.succeed()
    this.#move(model, 'warm')
  }

  /** Returns the models whose weights must stay on the disk. */
  inUse(): ReadonlySet<string> {
    const busy = [...this.#models.values()].filter(({ server, loading }) => server ?? loading !== undefined)
    const pinned = this.#options.pins.keys.flatMap((key) => [key, this.#models.get(key)?.baseKey ?? key])
    const keys = [...busy.map(({ modelKey }) => modelKey), ...pinned]
    return new Set(keys.flatMap((key) => [key, adapterKey(key)]))
  }

  #died(model: LoadedModel, server: RunningServer, { code }: ProcessExit): void {
    const wasAsleep = model.sleeping?.server === server
    if ((model.server !== server && !wasAsleep) || this.#stopping.signal.aborted) return
    model.sleeping = undefined
    for (const adapter of model.leave()) this.#move(adapter, 'evicted')
    const how = code > 128 ? `on signal ${code - 128}` : `with status ${code}`
    const message =
      server.excess === undefined
        ? `the model server exited unexpectedly ${how}. ${server.lastWords || 'It had no output.'}`
        : `the node ended the model server: ${server.excess}`
    // The exit of a sleeping server harms no request and does not delay the next load.
    if (!wasAsleep) model.fail(message)
    this.memoryAllocator.releaseWhenFree(model)
    this.#move(model, 'evicted')
    if (server.gpuFault !== undefined || server.profile.vram_mb > 0) this.#options.gpuHealth?.suspect()
    emit(this.#options.log, 'model.server_died', { model_key: model.modelKey, err: message })
  }

  async #measure(model: LoadedModel, server: RunningServer): Promise<void> {
    const pids = await server.pids()
    const peak = pids.length ? Math.ceil(await this.#options.meter.measureMb(pids, server.profile)) : 0
    if (model.server === server || model.loading) model.sawPids(pids)
    if (peak === 0 || (model.server !== server && !model.loading)) return
    model.sawMemory(peak)
    this.#options.memory.reserve(model.modelKey, model.memoryMb)
    if (!fillsReservation(server.profile) && !model.hasHeldAdapters)
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

/** Returns whether the server of a model, or of the base that it is an adapter of, doesn't suit its work. */
const mustReturn = (model: LoadedModel): boolean =>
  (model.server !== undefined && isUnsuited(model, model.server)) ||
  (model.base !== undefined && mustReturn(model.base))

/** Returns whether a model's server runs on another engine than its work needs, or accepts no adapters although it must. */
const isUnsuited = (
  { isReplaced, needsOwnEngine, needsAdapters }: LoadedModel,
  { profile, adapters }: RunningServer,
): boolean => (isReplaced && needsOwnEngine) || (needsAdapters && profile.adapters !== undefined && !adapters)
