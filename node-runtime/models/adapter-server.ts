import { link, mkdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import type { ProcessExit } from '../processes/process-driver.ts'
import type { CachedModel } from '../weights/cache.ts'
import { ADAPTER_PREFIX } from './named-pools.ts'
import { inferOnce, type ModelServer, ModelServerError, type RunningServer } from './server.ts'
import type { ServerPool } from './watched-pool.ts'

/** The base may be in the middle of a forward pass for another model. */
const CALL_TIMEOUT_MS = 60_000
const UNLOAD_TIMEOUT_MS = 5_000
const ENDED_STATUS = 1

/**
 * Returns the files that the server reads, by their names in its folder. A run writes its chat template next to the
 * adapter and next to the merged weights. `model/` sorts last, so an adapter has the same template as its merged model.
 */
const filesByName = ({ files }: CachedModel['spec']): Map<string, string> =>
  new Map(
    files
      .map(({ path }) => path)
      .toSorted()
      .map((path) => [basename(path), path]),
  )

/**
 * An adapter in the server of its base. It shares the base's connections and turns; every request gets the adapter's
 * name as its `model`.
 */
export class AdapterServer implements RunningServer {
  readonly profile: RuntimeProfile
  readonly exited: Promise<ProcessExit>
  readonly pool: ServerPool
  readonly adapters = undefined
  readonly #base: ModelServer
  readonly #name: string
  readonly #modelKey: string
  #exit: (exit: ProcessExit) => void = () => {}
  #excess: string | undefined
  #isOver = false

  private constructor(base: ModelServer, modelKey: string) {
    const name = `${ADAPTER_PREFIX}${modelKey}`
    this.#base = base
    this.#name = name
    this.#modelKey = modelKey
    this.profile = { ...base.profile, served_model: name }
    this.exited = new Promise((resolve) => (this.#exit = resolve))
    this.pool = base.poolOf(name)
  }

  /** Loads an adapter under the key of its model; throws a `ModelServerError` if the server refuses it. */
  static async load(
    base: ModelServer,
    modelKey: string,
    { spec, directory }: CachedModel,
  ): Promise<AdapterServer> {
    const { adapters } = base
    if (!adapters) throw new ModelServerError('the server of its base accepts no adapters')
    const folder = encodeURIComponent(modelKey)
    const path = join(adapters.dir, folder)
    await rm(path, { recursive: true, force: true })
    await mkdir(path)
    // The folder is on the disk of the cache.
    for (const [name, from] of filesByName(spec)) await link(join(directory, from), join(path, name))
    const server = new AdapterServer(base, modelKey)
    const order = { lora_name: server.#name, lora_path: join(adapters.path, folder) }
    // An earlier load may have ended after the server had accepted the adapter.
    await server.#call('/v1/unload_lora_adapter', UNLOAD_TIMEOUT_MS).catch(() => {})
    try {
      await server.#call('/v1/load_lora_adapter', CALL_TIMEOUT_MS, order)
      return server
    } catch (err) {
      // The server may still accept it after a timeout.
      await server.stop()
      throw err
    }
  }

  get turns(): RunningServer['turns'] {
    return this.#base.turns
  }

  get exchangeDir(): string | undefined {
    return this.#base.exchangeDir
  }

  get maxModelLen(): number | undefined {
    return this.#base.maxModelLen
  }

  get concurrency(): number {
    return this.#base.concurrency
  }

  get excess(): string | undefined {
    return this.#excess
  }

  get gpuFault(): string | undefined {
    return this.#base.gpuFault
  }

  get lastWords(): string {
    return this.#base.lastWords
  }

  /** Its memory is that of its base. */
  pids(): Promise<readonly number[]> {
    return Promise.resolve([])
  }

  probe(input: unknown, signal?: AbortSignal): Promise<void> {
    return inferOnce(this.pool, this.profile, input, signal)
  }

  /** The base is probed instead. */
  probeAgain(): Promise<'passed'> {
    return Promise.resolve('passed')
  }

  isHealthy(timeoutMs: number): Promise<boolean> {
    return this.#base.isHealthy(timeoutMs)
  }

  async end(reason: string): Promise<void> {
    this.#excess = reason
    await this.stop()
  }

  /** Unloads the adapter. A base that doesn't respond ends with its adapters anyway. */
  async stop(): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    await this.#call('/v1/unload_lora_adapter', UNLOAD_TIMEOUT_MS).catch(() => {})
    const { adapters } = this.#base
    if (adapters)
      await rm(join(adapters.dir, encodeURIComponent(this.#modelKey)), { recursive: true, force: true })
    this.#exit({ code: ENDED_STATUS })
  }

  async #call(
    path: string,
    timeoutMs: number,
    body: Record<string, string> = { lora_name: this.#name },
  ): Promise<void> {
    const { statusCode, body: answer } = await this.#base.pool.request({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
    })
    const text = await answer.text()
    if (statusCode !== 200)
      throw new ModelServerError(`its base refused the adapter with ${statusCode}: ${text}`)
  }
}
