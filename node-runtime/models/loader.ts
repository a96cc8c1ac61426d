import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { NodeModelSpec } from '../../schemas/node.ts'
import type { RuntimeProfile } from '../../schemas/runtime-profile.ts'
import type { CachedModel, WeightsCache } from '../weights/cache.ts'
import type { DownloadProgress } from '../weights/download-meter.ts'
import type { Drivers } from './launch.ts'
import { LoadDeadline } from './load-deadline.ts'
import { ModelServer } from './server.ts'

export interface ModelLoaderOptions {
  catalog: Catalog
  cache: WeightsCache
  drivers: Drivers
  /** Asks a gateway what a model is made of. */
  modelSpec: (modelKey: string, options: { signal: AbortSignal }) => Promise<NodeModelSpec>
  /** The interpreter of a locked environment, installed on first use. */
  pythonOf: (environment: string) => Promise<string>
  /** The folder of a locked set of npm packages, installed on first use. */
  packagesOf: (environment: string) => Promise<string>
}

/** Everything a model server needs, on this machine. */
export interface Prepared {
  cached: CachedModel
  profile: RuntimeProfile
  python: string | undefined
  packages: string | undefined
  /** How long it was waited for what the model runs in once its weights were there. */
  environmentMs: number
}

export interface PrepareOptions {
  signal: AbortSignal
  /** Models whose weights may not leave the disk to make room. */
  keep: ReadonlySet<string>
  onDownload: (progress?: DownloadProgress) => void
}

export interface StartOptions {
  /** The most RAM that it may take as a container. */
  ramMb: number
  /** Those that it may use. */
  gpus: readonly number[]
  stopping: AbortSignal
  /** The server is up and is asked for its first inference. */
  onWarmUp: () => void
  /** Hears which processes there are, also of a server that does not come up. */
  onPids: (pids: readonly number[]) => void
  /** How many percent of the weights' bytes the server has taken; 99 until it can serve. */
  onProgress: (percent: number) => void
}

/** Silence after which a download counts as stuck. */
const DOWNLOAD_STALL_MS = 60_000

/** The steps from nothing to a server that has answered one real request; holds no state of its own. */
export class ModelLoader {
  readonly #options: ModelLoaderOptions

  constructor(options: ModelLoaderOptions) {
    this.#options = options
  }

  /** Weights and environment; neither has anything to do with how long the load itself stands still. */
  async prepare(modelKey: string, options: PrepareOptions): Promise<Prepared> {
    const { cache, catalog, modelSpec, pythonOf, packagesOf } = this.#options
    const found = await cache.find(modelKey)
    const spec = found?.spec ?? (await modelSpec(modelKey, { signal: options.signal }))
    const profile = catalog.profile(spec.runtime_profile)
    if (!profile) throw new Error(`this node does not know the runtime profile ${spec.runtime_profile}`)

    const environment = Promise.all([
      profile.python_env === null ? undefined : pythonOf(profile.python_env),
      profile.npm_env === undefined ? undefined : packagesOf(profile.npm_env),
    ])
    // Awaited below; a failure before that must not count as unhandled.
    environment.catch(() => {})
    const cached = found ?? (await this.#download(spec, options))
    const cachedAt = performance.now()
    // An installation goes on in the background for the next load.
    const [python, packages] = await unlessAborted(environment, options.signal)
    return { cached, profile, python, packages, environmentMs: performance.now() - cachedAt }
  }

  /** Starts the server and asks for one real inference; a load that stands still is given up. */
  async start(
    { cached, profile, python, packages }: Prepared,
    { ramMb, gpus, stopping, onWarmUp, onPids, onProgress }: StartOptions,
  ): Promise<ModelServer> {
    const bytes = cached.spec.files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
    const onTaken = (taken: number) =>
      onProgress(Math.min(99, Math.floor((100 * taken) / Math.max(1, bytes))))
    using deadline = new LoadDeadline({ stallMs: profile.start_timeout_s * 1000, onTaken })
    const spec = {
      name: `model-${cached.spec.model_key}`,
      profile,
      python,
      packages,
      modelDir: cached.directory,
      ramMb,
      gpus,
    }
    const server = await ModelServer.start(this.#options.drivers, spec, { deadline, stopping, onPids })
    try {
      onWarmUp()
      const signal = AbortSignal.any([stopping, deadline.signal])
      await server.probe(profile.warmup_input ?? cached.spec.warmup_input, signal)
      return server
    } catch (err) {
      onPids(await server.pids())
      await server.stop({ graceMs: 0 })
      throw err
    }
  }

  async #download(spec: NodeModelSpec, { signal, keep, onDownload }: PrepareOptions): Promise<CachedModel> {
    onDownload()
    const stalled = new AbortController()
    const stall = () => stalled.abort(new Error(`the download stood still for ${DOWNLOAD_STALL_MS / 1000} s`))
    let timer = setTimeout(stall, DOWNLOAD_STALL_MS)
    try {
      return await this.#options.cache.fetch(spec, keep, {
        signal: AbortSignal.any([signal, stalled.signal]),
        renew: async () => (await this.#options.modelSpec(spec.model_key, { signal })).files,
        onProgress: (progress) => {
          clearTimeout(timer)
          timer = setTimeout(stall, DOWNLOAD_STALL_MS)
          onDownload(progress)
        },
      })
    } finally {
      clearTimeout(timer)
    }
  }
}
