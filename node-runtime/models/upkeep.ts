import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { RunningServer } from './server.ts'

export interface UpkeepOptions {
  models: () => Iterable<LoadedModel>
  /** Returns a model's idle timeout in milliseconds; undefined if it stays loaded. */
  idleMsOf: (modelKey: string) => number | undefined
  /** Loads the pinned models that are not loaded. */
  keepPinned: () => void
  /** Syncs the list of models with the disk. */
  syncDisk: () => Promise<void>
  /** Stops sleeping models if the machine is short of RAM. */
  relieveRam: () => Promise<void>
  measure: (model: LoadedModel, server: RunningServer) => Promise<void>
  unload: (model: LoadedModel) => Promise<void>
  /** Stores on the disk when a model was last used. */
  noteUse: (model: LoadedModel) => Promise<void>
  log: Logger
  /** Milliseconds between two rounds. */
  everyMs?: number
}

/** The default interval between rounds. */
export const ROUND_INTERVAL_MS = 5_000
/** The minimum interval for storing a model's last use, which orders the removal of models from the disk. */
const NOTE_USE_INTERVAL_MS = 60_000
export const HEALTH_TIMEOUT_MS = 5_000
/** A probe may wait for its turn behind long generations. */
const PROBE_TIMEOUT_MS = 60_000
const MAX_SICK = 3
const NO_HEALTH = 'it stopped answering its health check'

/**
 * Measures loaded models, ends servers that no longer answer or fail all requests, unloads idle models, stops sleeping ones if
 * RAM is scarce, and reloads pinned ones.
 */
export class Upkeep implements Disposable {
  readonly #options: UpkeepOptions
  readonly #timer: NodeJS.Timeout
  readonly #notedAt = new WeakMap<LoadedModel, number>()
  /** The models whose last round has not ended. */
  readonly #inRound = new Set<LoadedModel>()

  constructor(options: UpkeepOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#round(), options.everyMs ?? ROUND_INTERVAL_MS)
    this.#timer.unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  async #round(): Promise<void> {
    this.#options.keepPinned()
    await this.#options.syncDisk().catch(() => {})
    await this.#options.relieveRam()
    await Promise.all([...this.#options.models()].map((model) => this.#lookAfter(model)))
  }

  async #lookAfter(model: LoadedModel): Promise<void> {
    const { server, sleeping } = model
    if ((!server && !sleeping) || this.#inRound.has(model)) return
    this.#inRound.add(model)
    try {
      if (this.#isIdle(model)) await this.#unload(model)
      else if (server) await this.#lookAfterServer(model, server)
      else if (sleeping) await this.#countFault(model, sleeping.server, await faultAsleep(sleeping.server))
    } finally {
      this.#inRound.delete(model)
    }
  }

  async #lookAfterServer(model: LoadedModel, server: RunningServer): Promise<void> {
    await this.#options.measure(model, server)
    await this.#noteUse(model)
    await this.#countFault(model, server, await this.#faultOf(model, server))
  }

  async #countFault(model: LoadedModel, server: RunningServer, fault: string | undefined): Promise<void> {
    if (fault === undefined) model.timesSick = 0
    else if (++model.timesSick >= MAX_SICK) await server.end(fault)
  }

  /**
   * Returns the fault of a server, if any. A server may pass its health check but fail every request, for example after
   * a GPU error, so it is also probed. A model that only fails on one caller's inputs passes the probe.
   */
  async #faultOf(model: LoadedModel, server: RunningServer): Promise<string | undefined> {
    const isSilent = server.pool.isSuspect && model.timesSick > 0
    const probed = server.pool.needsProbe && !isSilent ? await server.probeAgain(PROBE_TIMEOUT_MS) : undefined
    if (probed === 'passed') return undefined
    if (typeof probed === 'object') return `its requests failed in a row, and so did a probe: ${probed.error}`
    const isBusy = model.inFlight > 0 && !server.pool.isSuspect
    if (isBusy || (await server.isHealthy(HEALTH_TIMEOUT_MS))) return undefined
    return NO_HEALTH
  }

  /** Unloads a model. If its server can't be stopped, the model keeps its memory and the next round tries again. */
  async #unload(model: LoadedModel): Promise<void> {
    const { unload, log } = this.#options
    const idle_s = Math.round((Date.now() - model.lastUsed) / 1_000)
    const isGone = await unload(model).then(
      () => true,
      () => false,
    )
    if (isGone) emit(log, 'model.unloaded_idle', { model_key: model.modelKey, idle_s })
  }

  #isIdle(model: LoadedModel): boolean {
    const idleMs = this.#options.idleMsOf(model.modelKey)
    if (idleMs === undefined || !model.isEvictable || performance.now() < model.protectedUntil) return false
    return Date.now() - model.lastUsed >= idleMs
  }

  async #noteUse(model: LoadedModel): Promise<void> {
    const usedAt = model.inFlight > 0 ? Date.now() : model.lastUsed
    if (usedAt - (this.#notedAt.get(model) ?? 0) < NOTE_USE_INTERVAL_MS) return
    this.#notedAt.set(model, usedAt)
    await this.#options.noteUse(model)
  }
}

/** Returns the fault of a sleeping server, if any. A sleeping server only answers its health check. */
const faultAsleep = async (server: RunningServer): Promise<string | undefined> =>
  (await server.isHealthy(HEALTH_TIMEOUT_MS)) ? undefined : NO_HEALTH
