import { backoff } from '../../platform/async/retry.ts'
import type { NodeModel, NodeModelState } from '../../schemas/node.ts'
import type { DownloadProgress } from '../weights/download-meter.ts'
import type { Pins } from './pins.ts'
import type { ModelServer } from './server.ts'
import { withoutPaths } from './without-paths.ts'

const PAUSES_MS = { first: 1_000, longest: 300_000 }

/** One model on this node, from `cold` to `evicted`. */
export class LoadedModel {
  readonly modelKey: string
  server: ModelServer | undefined
  inFlight = 0
  lastUsed = Date.now()
  memoryMb = 0
  /** The GPUs, by their number, that share what it holds. */
  gpus: readonly number[] = []
  loading: Promise<void> | undefined
  /** Process ids of its server, as last seen: what they held is looked for when they are gone. */
  pids: readonly number[] = []
  /** Settles when its last server is gone with all that it held. */
  leaving: Promise<void> | undefined
  /** Health checks in a row without an answer. */
  timesSick = 0
  progress: DownloadProgress | undefined
  /** How much of its weights its server has taken while it starts. */
  loadPercent = 0
  /** How long its last load waited for what it runs in to be installed. */
  environmentMs = 0
  /** Its server is up and is asked for its first inference. */
  isWarmingUp = false
  error: string | undefined
  /** The last load failed for its weights, which are what they should be. */
  isUnusable = false
  retryAt = 0
  #state: NodeModelState
  #failures = 0
  readonly #pins: Pick<Pins, 'has'>

  constructor(modelKey: string, state: NodeModelState, pins: Pick<Pins, 'has'>) {
    this.modelKey = modelKey
    this.#pins = pins
    this.#state = state
  }

  /** `running` and `idle` follow from what is in flight; a model that has not been used since its load is `warm`. */
  get state(): NodeModelState {
    if (this.#state !== 'warm' && this.#state !== 'idle') return this.#state
    return this.inFlight > 0 ? 'running' : this.#state
  }

  set state(state: NodeModelState) {
    this.#state = state
  }

  /** It is loaded, nobody uses it, and nobody has asked to keep it. */
  get isEvictable(): boolean {
    return this.server !== undefined && this.inFlight === 0 && !this.loading && !this.#isPinned
  }

  get #isPinned(): boolean {
    return this.#pins.has(this.modelKey)
  }

  /** A server that has gone has none, and those that it had stay known. */
  sawPids(pids: readonly number[]): void {
    if (pids.length > 0) this.pids = pids
  }

  succeed(): void {
    this.#failures = 0
    this.error = undefined
    this.isUnusable = false
    this.retryAt = 0
    this.progress = undefined
  }

  /** Puts the next try off, twice as long each time. */
  fail(message: string, { isUnusable = false } = {}): void {
    this.error = message
    this.isUnusable = isUnusable
    this.retryAt = Date.now() + backoff(this.#failures, PAUSES_MS)
    this.#failures += 1
    this.progress = undefined
  }

  report(): NodeModel {
    return {
      model_key: this.modelKey,
      state: this.state,
      in_flight: this.inFlight,
      memory_mb: this.memoryMb,
      ...(this.memoryMb > 0 && this.gpus.length > 0 && { gpus: [...this.gpus] }),
      ...(this.#isPinned && { pinned: true }),
      ...(this.isWarmingUp && { warming_up: true }),
      ...(this.#state === 'loading_model' && { load_progress_pct: this.loadPercent }),
      ...this.progress,
      ...(this.error !== undefined && this.isUnusable && { unusable: true }),
      ...(this.error !== undefined && { error: withoutPaths(this.error), retry_at: this.retryAt }),
    }
  }
}
