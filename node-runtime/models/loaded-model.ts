import { backoff } from '../../platform/async/retry.ts'
import type { EngineFault, NodeModel, NodeModelState } from '../../schemas/nodes/node.ts'
import type { Serving } from '../../schemas/nodes/serving.ts'
import type { DownloadProgress } from '../weights/download-meter.ts'
import type { Pins } from './pins.ts'
import type { ModelServer, RunningServer } from './server.ts'
import { withoutPaths } from './without-paths.ts'

const RETRY_DELAY_MS = { first: 1_000, longest: 300_000 }
/** In place of a profile, for serving a model as an adapter of its base. */
const ADAPTER = 'adapter'
/** The maximum time for which a recently loaded model is protected from other loads. */
export const MAX_PROTECTION_TTL_MS = 300_000
/** The same for loads that only put it to sleep, which costs much less than another load. */
const MAX_AWAKE_TTL_MS = 2_000
const ENGINE_RETRY_TTL_MS = 3_600_000
/**
 * The maximum length of an error message: programs may exit with arbitrarily long ones, and gateways limit the report's
 * size.
 */
const MAX_ERROR = 2_000

/** A model on this node in any state, from `cold` to `evicted`. */
export class LoadedModel {
  readonly modelKey: string
  server: RunningServer | undefined
  /** The model in whose server this one is an adapter, while it is. */
  base: LoadedModel | undefined
  /** The model in whose server this one was an adapter last. */
  baseKey: string | undefined
  /** The models that are adapters in its server. */
  readonly adapters = new Set<LoadedModel>()
  /** Its server while it sleeps, and the memory that the server needs when it wakes. */
  sleeping: { readonly server: ModelServer; readonly awakeMb: number } | undefined
  /** The memory of this adapter in the server of its base, beyond what the server reserved at its start. */
  adapterMb = 0
  /** The memory of an adapter that is being loaded into its server, which no measurement shows yet. */
  incomingMb = 0
  /** The part of its reservation that unloaded adapters have left to others. */
  vacantMb = 0
  /** True once adapters have used memory of its server, so that the peak is not the model's own. */
  hasHeldAdapters = false
  inFlight = 0
  lastUsed = Date.now()
  memoryMb = 0
  /** The size of its weights once they are loaded. */
  weightsMb = 0
  /** The RAM of its server for sleeping. Once the server has slept, it retains that RAM until it stops. */
  sleepRamMb = 0
  /** The settings of its endpoint with which its server was started. */
  serving: Serving | undefined
  /** The indexes of the GPUs that hold the model. */
  gpus: readonly number[] = []
  loading: Promise<void> | undefined
  /** The last known process ids of its server, which the meter checks after their exit. */
  pids: readonly number[] = []
  /** Settles when its last server has exited and its memory is free, or when its server sleeps. */
  leaving: Promise<void> | undefined
  /** The number of failed health checks and probes in a row. */
  timesSick = 0
  progress: DownloadProgress | undefined
  /** The percentage of the weights that its starting server has read. */
  loadPercent = 0
  /** How long its last load waited for its environment to be installed and for the memory of protected models. */
  delayMs = 0
  /** The `performance.now` time from which loads of other models, or an idle timeout, may evict it. */
  protectedUntil = 0
  /** The `performance.now` time from which loads of other models may put it to sleep. */
  awakeUntil = 0
  /** The `performance.now` time until which its load is waiting for protected models; undefined if it isn't waiting. */
  memoryAt: number | undefined
  /** True when it is loaded and this node polls no queue for it. */
  isUnpolled = false
  /** True while its new server runs the first inference. */
  isWarmingUp = false
  /** True when its server runs on another engine than the one that its version names. */
  isReplaced = false
  /** True once it had work that only the engine of its version can do. */
  needsOwnEngine = false
  /** True once adapters of it had to be loaded, so that its server must accept them. */
  needsAdapters = false
  /** True while its server finishes its last requests before the model returns to that engine. */
  isReturning = false
  error: string | undefined
  /** True when the last load failed because of the weights, although their bytes are correct. */
  isUnusable = false
  retryAt = 0
  /** Why a better engine than that of its server doesn't serve it; undefined if none failed. */
  engineFault: EngineFault | undefined
  #state: NodeModelState
  #failures = 0
  /** The highest measurement of its server. */
  #peakMb = 0
  /** By profile and settings, the `performance.now` time until which they are not tried again. */
  readonly #avoided = new Map<string, number>()
  readonly #pins: Pick<Pins, 'has' | 'isRetiring'>

  constructor(modelKey: string, state: NodeModelState, pins: Pick<Pins, 'has' | 'isRetiring'>) {
    this.modelKey = modelKey
    this.#pins = pins
    this.#state = state
  }

  /**
   * `running` depends on the requests in flight. A model that has not been used since its load is
   * `warm`, and later `idle`.
   */
  get state(): NodeModelState {
    if (this.#state !== 'warm' && this.#state !== 'idle') return this.#state
    return this.inFlight > 0 ? 'running' : this.#state
  }

  set state(state: NodeModelState) {
    this.#state = state
  }

  /** True for a loaded model that the platform wants to stay loaded. */
  get isStaying(): boolean {
    return this.server !== undefined && !this.#isRetiring
  }

  /** True for a loaded or sleeping model without requests and without a pin. */
  get isEvictable(): boolean {
    const hasServer = this.server !== undefined || this.sleeping !== undefined
    return hasServer && this.inFlight === 0 && !this.loading && !this.isPinned
  }

  /** True for a pinned model, and for the base of a pinned adapter. */
  get isPinned(): boolean {
    return this.#pins.has(this.modelKey) || [...this.adapters].some(({ isPinned }) => isPinned)
  }

  /**
   * Protects a recently loaded model for as long as its load took, even if it is retired. Otherwise two models that
   * alternate in memory that fits only one would spend most of their time loading.
   */
  protect(loadMs: number): void {
    const now = performance.now()
    this.protectedUntil = now + Math.min(loadMs, MAX_PROTECTION_TTL_MS)
    this.awakeUntil = now + Math.min(loadMs, MAX_AWAKE_TTL_MS)
  }

  get #isRetiring(): boolean {
    return this.#pins.isRetiring(this.modelKey) && !this.isPinned
  }

  /** Stores the process ids. Ignores an empty list, so that the ids of an exited server remain known. */
  sawPids(pids: readonly number[]): void {
    if (pids.length > 0) this.pids = pids
  }

  /** Begins with a new server, of whose memory adapters have had nothing. */
  forgetMemory(): void {
    this.#peakMb = 0
    this.vacantMb = 0
    this.hasHeldAdapters = false
  }

  /** Records a measurement of its server. The memory that adapters had left was in use again if the peak has risen. */
  sawMemory(mb: number): void {
    if (mb > this.#peakMb) this.vacantMb = 0
    this.#peakMb = Math.max(mb, this.#peakMb)
    this.memoryMb = mb + this.incomingMb
  }

  /** Skips an engine that failed to serve this model with these settings, for a while. */
  avoidEngine(profileId: string, serving: Serving | undefined, error: string): void {
    this.#avoided.set(attemptOf(profileId, serving), performance.now() + ENGINE_RETRY_TTL_MS)
    this.noteEngineFault(profileId, error, { retry_at: Date.now() + ENGINE_RETRY_TTL_MS })
  }

  /** Records why an engine doesn't serve the model; unless `retry_at` is set, the next load tries it again. */
  noteEngineFault(profileId: string, error: string, more: Pick<EngineFault, 'retry_at'> = {}): void {
    this.engineFault = {
      runtime_profile: profileId,
      error: withoutPaths(error.slice(0, MAX_ERROR)),
      ...more,
    }
  }

  avoidsEngine(profileId: string, serving: Serving | undefined): boolean {
    const until = this.#avoided.get(attemptOf(profileId, serving)) ?? 0
    return this.needsOwnEngine || until > performance.now()
  }

  /**
   * Does without adapters for a while: this model is served with its own weights, and its server is not restarted to accept
   * adapters of it.
   */
  avoidAdapter(): void {
    this.needsAdapters = false
    this.#avoided.set(ADAPTER, performance.now() + ENGINE_RETRY_TTL_MS)
  }

  get avoidsAdapter(): boolean {
    return (this.#avoided.get(ADAPTER) ?? 0) > performance.now()
  }

  /** Makes this model an adapter in the server of its base. */
  join(base: LoadedModel, server: RunningServer): void {
    this.server = server
    this.base = base
    this.baseKey = base.modelKey
    this.isReplaced = false
    base.adapters.add(this)
  }

  /** Records that its server is gone; returns the models that were adapters in it, which are gone too. */
  leave(): LoadedModel[] {
    this.server = undefined
    if (this.base) {
      this.base.adapters.delete(this)
      this.base.vacantMb += this.adapterMb
    }
    this.base = undefined
    this.adapterMb = 0
    const adapters = [...this.adapters]
    for (const adapter of adapters) adapter.leave()
    return adapters
  }

  succeed(): void {
    this.#failures = 0
    this.error = undefined
    this.isUnusable = false
    this.retryAt = 0
    this.progress = undefined
  }

  /** Records a failure and postpones the next try. The delay doubles with each failure. */
  fail(message: string, { isUnusable = false } = {}): void {
    this.error = message.slice(0, MAX_ERROR)
    this.isUnusable = isUnusable
    this.retryAt = Date.now() + backoff(this.#failures, RETRY_DELAY_MS)
    this.#failures += 1
    this.progress = undefined
  }

  /** Rejects loads for a moment, and reports why, so that the platform tries another node meanwhile. */
  postpone(message: string): void {
    this.error = message.slice(0, MAX_ERROR)
    this.retryAt = Date.now() + RETRY_DELAY_MS.first
  }

  report(): NodeModel {
    const server = this.server ?? this.sleeping?.server
    return {
      model_key: this.modelKey,
      state: this.state,
      in_flight: this.inFlight,
      ...(this.server && {
        max_concurrency: this.server.concurrency,
        ...(this.server.maxModelLen !== undefined && { max_model_len: this.server.maxModelLen }),
        ...(this.engineFault && { engine_fault: this.engineFault }),
      }),
      ...(server && { runtime_profile: server.profile.profile_id }),
      memory_mb: this.memoryMb,
      ...(this.sleeping && this.#state === 'evicted' && { asleep: true, ram_mb: this.sleepRamMb }),
      ...(this.memoryMb > 0 && this.gpus.length > 0 && { gpus: [...this.gpus] }),
      ...(this.isPinned && { pinned: true }),
      ...(this.server && this.#isRetiring && { retiring: true }),
      ...(this.isUnpolled && this.server && { unpolled: true }),
      ...(this.isWarmingUp && { warming_up: true }),
      ...(this.#state === 'loading_model' && { load_progress_pct: this.loadPercent }),
      ...(this.memoryAt !== undefined && { memory_in_ms: remainingMs(this.memoryAt) }),
      ...this.progress,
      ...(this.error !== undefined && this.isUnusable && { unusable: true }),
      ...(this.error !== undefined && { error: withoutPaths(this.error), retry_at: this.retryAt }),
    }
  }
}

const remainingMs = (at: number): number => Math.max(0, Math.ceil(at - performance.now()))
const attemptOf = (profileId: string, serving: Serving | undefined): string =>
  `${profileId} ${JSON.stringify(serving ?? null)}`
