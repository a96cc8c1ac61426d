import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../platform/log.ts'
import type { NodeModel } from '../../schemas/nodes/node.ts'
import type { SleepRoutes } from '../../schemas/nodes/runtime-profile.ts'
import { emit } from '../events.ts'
import type { MemoryMeter } from '../memory/meter.ts'
import type { SleepRam } from '../memory/ram.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { Pins } from './pins.ts'
import { ModelServer, ModelServerError, type RunningServer } from './server.ts'

export interface SleeperOptions {
  /** All models on this node. */
  models: () => Iterable<LoadedModel>
  memory: MemoryReservations
  meter: MemoryMeter
  ram: SleepRam
  pins: Pick<Pins, 'isRetiring'>
  /** Stops the server of a model. */
  evict: (model: LoadedModel) => Promise<void>
  onMove: (model: LoadedModel, state: NodeModel['state']) => void
  /** Aborts when the node stops. */
  stopping: AbortSignal
  log: Logger
}

/** Pinning tens of gigabytes of RAM takes a while. */
const SLEEP_TIMEOUT_MS = 120_000
const STATE_TIMEOUT_MS = 10_000
/** How long the driver may list the memory of a server that reports that it sleeps. */
const FREE_TIMEOUT_MS = 5_000
const FREE_POLL_INTERVAL_MS = 250
/** A server that retains more of its GPU memory than this share is stopped instead. */
const MAX_RETAINED_SHARE = 0.5

/** Puts idle models to sleep: their weights move to RAM, and other models can use their GPU memory. */
export class Sleeper {
  readonly #options: SleeperOptions
  /** One model at a time falls asleep, so that each sees the RAM that the earlier ones left. */
  #queue: Promise<unknown> = Promise.resolve()

  constructor(options: SleeperOptions) {
    this.#options = options
  }

  /** Returns whether a model's server can sleep and its weights could fit into the RAM for sleeping models. */
  canSleep(model: LoadedModel): boolean {
    const { pins, ram } = this.#options
    const routes = model.base ? undefined : model.server?.profile.sleep
    return routes !== undefined && ram.couldHold(ramOf(model, routes)) && !pins.isRetiring(model.modelKey)
  }

  /**
   * Puts the server of a model to sleep and reduces its reservation to the GPU memory that it still uses. Returns
   * false if that fails or frees too little; the caller then has to stop the server. Never throws.
   */
  fallAsleep(model: LoadedModel, server: RunningServer): Promise<boolean> {
    const falling = this.#queue.then(async () => {
      try {
        await this.#fallAsleep(model, server)
        return true
      } catch (err) {
        const message = err instanceof Error ? err.message : String(err)
        emit(this.#options.log, 'model.not_asleep', { model_key: model.modelKey, err: message })
        return false
      }
    })
    this.#queue = falling
    return falling
  }

  /** Stops sleeping models, least recently used first, while the machine is short of RAM. */
  async relieve(): Promise<void> {
    const { ram } = this.#options
    for (const model of this.#asleep()) {
      if (!(await ram.isScarce())) return
      await this.#end(model)
    }
  }

  /** Stops all models that sleep or are falling asleep. */
  async endAll(): Promise<void> {
    await this.#queue
    await Promise.all(this.#asleep().map((model) => this.#end(model)))
  }

  async #fallAsleep(model: LoadedModel, server: RunningServer): Promise<void> {
    const { memory, meter, onMove, stopping, log } = this.#options
    const { sleep: routes } = server.profile
    if (!routes || !(server instanceof ModelServer)) throw new Error('its server cannot sleep')
    const startedAt = performance.now()
    let hasExited = false
    void server.exited.then(() => (hasExited = true))
    await this.#takeRam(model, routes)
    const pids = await server.pids()
    model.sawPids(pids)
    const beforeMb = await meter.measureMb(pids, server.profile)
    if (beforeMb === 0) throw new Error('the driver does not report its GPU memory')
    const signalOf = (ms: number) => AbortSignal.any([stopping, AbortSignal.timeout(ms)])
    await server.control('POST', routes.sleep, signalOf(SLEEP_TIMEOUT_MS))
    if (!(await isAsleep(server, routes, signalOf(STATE_TIMEOUT_MS))))
      throw new ModelServerError('it reports that it does not sleep')
    const memoryMb = Math.ceil(await this.#retainedMb(pids, server, beforeMb))
    if (hasExited) throw new Error('its server exited')
    model.sleeping = { server, awakeMb: memory.heldBy(model.modelKey) }
    model.memoryMb = memoryMb
    memory.reserve(model.modelKey, memoryMb)
    onMove(model, 'evicted')
    const ms = Math.round(performance.now() - startedAt)
    const { sleepRamMb: ram_mb } = model
    emit(log, 'model.asleep', { model_key: model.modelKey, ms, memory_mb: memoryMb, ram_mb })
  }

  /** Reserves RAM for a model. Stops models that have slept for longer if that is necessary. */
  async #takeRam(model: LoadedModel, routes: SleepRoutes): Promise<void> {
    const { models, ram } = this.#options
    const neededMb = ramOf(model, routes)
    const newMb = neededMb - model.sleepRamMb
    const usedMb = () => [...models()].reduce((sum, { sleepRamMb }) => sum + sleepRamMb, 0)
    const others = this.#asleep()
    while (!(await ram.fits(newMb, usedMb()))) {
      const oldest = others.shift()
      if (!oldest) throw new Error(`too little RAM is free for ${neededMb} MB`)
      await this.#end(oldest)
    }
    model.sleepRamMb = neededMb
  }

  /** Returns the GPU memory that a sleeping server still uses; throws if that is too much. */
  async #retainedMb(pids: readonly number[], server: ModelServer, beforeMb: number): Promise<number> {
    const until = performance.now() + FREE_TIMEOUT_MS
    for (;;) {
      const mb = await this.#options.meter.measureMb(pids, server.profile)
      if (mb > 0 && mb <= MAX_RETAINED_SHARE * beforeMb) return mb
      if (performance.now() > until)
        throw new Error(`it sleeps, but still uses ${mb} of ${beforeMb} MB of GPU memory`)
      await sleep(FREE_POLL_INTERVAL_MS, undefined, { ref: false })
    }
  }

  /** Returns the sleeping models that can be stopped, least recently used first. */
  #asleep(): LoadedModel[] {
    const asleep = [...this.#options.models()].filter(({ sleeping, isEvictable }) => sleeping && isEvictable)
    return asleep.toSorted((a, b) => a.lastUsed - b.lastUsed)
  }

  async #end(model: LoadedModel): Promise<void> {
    // It may have been stopped, or a request may be waking it.
    if (!model.sleeping || !model.isEvictable) return
    const isGone = await this.#options.evict(model).then(
      () => true,
      () => false,
    )
    if (isGone) emit(this.#options.log, 'model.sleep_ended', { model_key: model.modelKey })
  }
}

const ramOf = ({ weightsMb }: LoadedModel, { ram_per_weights_mb }: SleepRoutes): number =>
  Math.ceil(weightsMb * ram_per_weights_mb)

/** Asks a server whether it sleeps. */
export async function isAsleep(
  server: ModelServer,
  routes: SleepRoutes,
  signal: AbortSignal,
): Promise<boolean> {
  const { is_sleeping } = (await server.control('GET', routes.is_sleeping, signal)) as {
    is_sleeping?: unknown
  }
  return is_sleeping === true
}
