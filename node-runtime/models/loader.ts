import type { ContextShape } from '../../domain/models/context-memory.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { Logger } from '../../platform/log.ts'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import type { Serving } from '../../schemas/nodes/serving.ts'
import type { GpuHealth } from '../hardware/gpu-health.ts'
import type { CachedModel, ProtectedModels, WeightsCache } from '../weights/cache.ts'
import type { DownloadProgress } from '../weights/download-meter.ts'
import { adapterKey } from '../weights/keys.ts'
import { withServing } from '../weights/stored-serving.ts'
import { contextShapeIn } from './context-shape.ts'
import { type Comparison, type Convert, needsNoConversion, recipeOf, runConversion } from './conversion.ts'
import { chooseEngine, enginesOf, type ProfileNeeds } from './engines.ts'
import type { Drivers } from './launch.ts'
import { LoadDeadline } from './load-deadline.ts'
import { adaptersDirOf, compileDirOf } from './server-folders.ts'
import { ModelServer, NoGpuError } from './server.ts'

export interface SpecOptions {
  signal: AbortSignal
  /** True if the files of an adapter suffice, should the model be served as one. */
  adapters?: boolean
}

export interface ModelLoaderOptions extends ProfileNeeds {
  catalog: Catalog
  log: Logger
  /** Receives reports of whether servers on GPUs could use them. */
  gpuHealth?: Pick<GpuHealth, 'failed' | 'worked' | 'suspect'>
  /** Called with each output line of a model server. */
  onLine?: (modelKey: string, line: string) => void
  cache: WeightsCache
  drivers: Drivers
  /** Requests the specification of a model from a gateway. */
  modelSpec: (modelKey: string, options: SpecOptions) => Promise<NodeModelSpec>
  /** The ids of the profiles that this machine can run. */
  runnable: readonly string[]
  /** Returns whether the memory of this node can hold a model with a profile. */
  fits: (spec: NodeModelSpec, profile: RuntimeProfile) => boolean
}

/** Thrown if the environment of an engine other than the version's own can't be installed. */
export class EnvironmentError extends Error {
  override readonly name = 'EnvironmentError'
  readonly profileId: string
  readonly serving: Serving | undefined

  constructor(profileId: string, serving: Serving | undefined, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.profileId = profileId
    this.serving = serving
  }
}

/** Everything that a model server needs on this machine. */
export interface PreparedModel {
  cached: CachedModel
  profile: RuntimeProfile
  /** True if another profile can take its place. */
  isReplacement: boolean
  /** True if no better profile was passed over. */
  isBest: boolean
  python: string | undefined
  packages: string | undefined
  /** The time that the load waited for the environment after the weights were complete. */
  environmentMs: number
  /** The shape of the model's context, for a server that fits its context into its memory. */
  context: ContextShape | undefined
  /** The folder of the model's conversion, if there is one. */
  convertedDir: string | undefined
  /** A conversion, required or optional, to run before the server starts. */
  pending: PendingConversion | undefined
}

/** A conversion that has not been run on this machine yet. */
export interface PendingConversion {
  convert: Convert
  /** The interpreter of its environment. */
  converter: string
  /**
   * False if the model already has the files that the server reads. The conversion then runs only to compare them with
   * the original weights, and may fail.
   */
  isNeeded: boolean
}

export interface ConvertOptions {
  ramMb: number
  keep: ProtectedModels
  stopping: AbortSignal
  onProgress: (percent: number) => void
  onCompared: (comparison: Comparison) => void
}

export interface PrepareOptions {
  signal: AbortSignal
  /** Models whose weights must stay on the disk. */
  keep: ProtectedModels
  /** Returns whether a profile other than the version's own must not be used. */
  isAvoided: (profileId: string, serving: Serving | undefined) => boolean
  /** Called with an engine that the settings of the model rule out, and the reason. */
  onUnsuited: (profileId: string, reason: string) => void
  onDownload: (progress?: DownloadProgress) => void
  /** The specification, if it has just been requested. */
  now?: NodeModelSpec | undefined
}

/** A model that is served as an adapter, or else its specification if it has been requested. */
export type Found =
  | { adapter: CachedModel; base_key: string }
  | { adapter?: undefined; now?: NodeModelSpec | undefined }

export interface StartOptions {
  /** The RAM limit of a container. */
  ramMb: number
  /** The `device` of each GPU that the server may use. */
  gpus: readonly string[]
  /** The share of each GPU that a server may claim; undefined for profiles without one. */
  vramShare?: number | undefined
  /** The memory for the context of a server that fits it. */
  contextMb?: number | undefined
  /** True if the server must accept adapters of the model. */
  acceptsAdapters: boolean
  stopping: AbortSignal
  /** Called when the server is up and its first inference begins. */
  onWarmUp: () => void
  /** Called with the process ids, even for a server that fails to start. */
  onPids: (pids: readonly number[]) => void
  /** Called with the percentage of the weights that the server has read; at most 99 until the server is ready. */
  onProgress: (percent: number) => void
}

/** A download without progress is aborted after this time. */
const DOWNLOAD_STALL_TIMEOUT_MS = 60_000
const SERVING_TIMEOUT_MS = 3_000
/** A long limit, because importing PyTorch from a cold disk prints nothing for a long time. */
const CONVERSION_STALL_TIMEOUT_MS = 300_000
/** 16-bit weights are converted to 32 bits. */
const GROWTH = 2

/** The steps from a cold model to a server that has answered one real request. Stateless. */
export class ModelLoader {
  readonly #options: ModelLoaderOptions

  constructor(options: ModelLoaderOptions) {
    this.#options = options
  }

  /** Prepares the weights and the environment. The load deadline does not cover these steps. */
  async prepare(modelKey: string, options: PrepareOptions): Promise<PreparedModel> {
    const { cache, modelSpec, pythonOf } = this.#options
    const stored = await cache.find(modelKey)
    const found = stored && { ...stored, spec: await this.#withServing(stored, options) }
    const spec = found?.spec ?? options.now ?? (await modelSpec(modelKey, { signal: options.signal }))
    const engines = enginesOf(spec, this.#options)
    const own = engines.at(-1)
    // Without a choice, the environment is installed during the download.
    const early = engines.length === 1 && own ? this.#environmentOf(own) : undefined
    // The promise is awaited below; an earlier rejection must not count as unhandled.
    early?.catch(() => {})
    const cached = found ?? (await this.#download(spec, options))
    const profile = await chooseEngine(engines, cached.directory, {
      ...this.#options,
      isAvoided: (profileId) => options.isAvoided(profileId, spec.serving),
      onUnsuited: options.onUnsuited,
    })
    const environment = early ?? this.#environmentOf(profile)
    environment.catch(() => {})
    const cachedAt = performance.now()
    const { convertedDir, missing } = await this.#conversionOf(cached, profile, { isNew: !found })
    const converter = missing && pythonOf(missing.convert.python_env)
    converter?.catch(() => {})
    // After an abort the installation continues in the background, for the next load.
    const [python, packages] = await unlessAborted(environment, options.signal).catch((err: unknown) => {
      throw profile === own || options.signal.aborted
        ? err
        : new EnvironmentError(profile.profile_id, spec.serving, err)
    })
    const pending = missing &&
      converter && { ...missing, converter: await unlessAborted(converter, options.signal) }
    const environmentMs = performance.now() - cachedAt
    const context = profile.fits_context ? await contextShapeIn(cached.directory) : undefined
    return {
      cached,
      profile,
      isReplacement: profile !== own,
      isBest: profile === engines[0],
      python,
      packages,
      environmentMs,
      context,
      convertedDir,
      pending,
    }
  }

  /** Returns the specification of a stored model with the serving that the platform has now, or had last. */
  async #withServing(
    cached: CachedModel,
    { signal, now }: Pick<PrepareOptions, 'signal' | 'now'>,
  ): Promise<NodeModelSpec> {
    const { spec } = cached
    if (!this.#someProfile(spec, ({ serving_options }) => serving_options !== undefined)) return spec
    const current = now ?? (await this.currentSpec(spec.model_key, signal))
    return withServing(cached, current, this.#options.log)
  }

  /** Returns whether a profile for the kind of a model has a feature. */
  #someProfile({ runtime_profile }: NodeModelSpec, has: (profile: RuntimeProfile) => boolean): boolean {
    const { catalog } = this.#options
    const kind = catalog.profile(runtime_profile)?.model_kind
    return catalog.profiles.some((profile) => profile.model_kind === kind && has(profile))
  }

  /** Requests the specification of a model on this disk; undefined if no gateway responds in time. */
  currentSpec(modelKey: string, stopping: AbortSignal, adapters = false): Promise<NodeModelSpec | undefined> {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(SERVING_TIMEOUT_MS)])
    return this.#options.modelSpec(modelKey, { signal, adapters }).catch(() => undefined)
  }

  /**
   * Returns the files of a model that is served as an adapter, and the key of its base. Without a gateway, a model on this
   * disk is served as before.
   */
  async findAdapter(modelKey: string, options: PrepareOptions): Promise<Found> {
    const { cache, modelSpec, catalog, runnable } = this.#options
    const isAble = catalog.profiles.some(
      ({ profile_id, adapters }) => adapters && runnable.includes(profile_id),
    )
    if (!isAble) return {}
    const stored = await cache.find(adapterKey(modelKey))
    const own = stored ? undefined : await cache.find(modelKey)
    if (own && !this.#someProfile(own.spec, ({ adapters }) => adapters !== undefined)) return {}
    const { signal } = options
    const now =
      (stored ?? own)
        ? await this.currentSpec(modelKey, signal, true)
        : await modelSpec(modelKey, { signal, adapters: true })
    const { base_key } = now ?? stored?.spec ?? {}
    if (base_key === undefined) return { now }
    const adapter =
      stored ??
      (now && (await this.#download({ ...now, model_key: adapterKey(modelKey) }, options, modelKey)))
    return adapter ? { adapter, base_key } : { now }
  }

  async #environmentOf({
    python_env,
    npm_env,
    image,
  }: RuntimeProfile): Promise<[string | undefined, string | undefined]> {
    const { pythonOf, packagesOf, imageOf } = this.#options
    const [python, packages] = await Promise.all([
      python_env === null ? undefined : pythonOf(python_env),
      npm_env === undefined ? undefined : packagesOf(npm_env),
      image === undefined ? undefined : imageOf(image),
    ])
    return [python, packages]
  }

  /** Runs the conversion of a model, once per set of files, and returns its folder. Aborts a stalled conversion. */
  async convert(
    { cached, profile, python }: PreparedModel,
    { convert, converter }: PendingConversion,
    { ramMb, keep, stopping, onProgress, onCompared }: ConvertOptions,
  ): Promise<string> {
    const { cache, drivers } = this.#options
    const bytes = GROWTH * sizeOf(cached)
    return cache.convert(cached.spec, recipeOf(profile, convert), {
      keep,
      bytes,
      build: async (outDir) => {
        using deadline = new LoadDeadline({ stallMs: CONVERSION_STALL_TIMEOUT_MS })
        const order = {
          name: `convert-${cached.spec.model_key}`,
          profile,
          converter,
          python,
          modelDir: cached.directory,
          outDir,
          ramMb,
        }
        await runConversion(drivers.process, order, { deadline, stopping, onProgress, onCompared })
      },
    })
  }

  /** Returns the finished or pending conversion of a model. */
  async #conversionOf(
    cached: CachedModel,
    profile: RuntimeProfile,
    { isNew }: { isNew: boolean },
  ): Promise<{ convertedDir?: string; missing?: Omit<PendingConversion, 'converter'> }> {
    const { convert } = profile
    if (!convert) return {}
    const convertedDir = await this.#options.cache.findConversion(cached.spec, recipeOf(profile, convert))
    if (convertedDir !== undefined) return { convertedDir }
    if (!(await needsNoConversion(convert, cached.directory))) return { missing: { convert, isNeeded: true } }
    const hasOriginal = cached.spec.files.some(({ path }) => path.endsWith('.safetensors'))
    const isCompared = isNew && hasOriginal && (await this.#options.hasPython(convert.python_env))
    return isCompared ? { missing: { convert, isNeeded: false } } : {}
  }

  /** Starts the server and sends one real inference request. Aborts a stalled load. */
  async start(
    { cached, profile, python, packages, convertedDir, context }: PreparedModel,
    {
      ramMb,
      gpus,
      vramShare,
      contextMb,
      acceptsAdapters,
      stopping,
      onWarmUp,
      onPids,
      onProgress,
    }: StartOptions,
  ): Promise<ModelServer> {
    const bytes = sizeOf(cached)
    const onTaken = (taken: number) =>
      onProgress(Math.min(99, Math.floor((100 * taken) / Math.max(1, bytes))))
    using deadline = new LoadDeadline({ stallMs: profile.start_timeout_s * 1000, onTaken })
    const spec = {
      name: `model-${cached.spec.model_key}`,
      profile,
      python,
      packages,
      modelDir: cached.directory,
      convertedDir,
      ramMb,
      gpus,
      vramShare,
      contextMb,
      context,
      serving: cached.spec.serving,
      compileDir: await compileDirOf(cached, profile),
      adaptersDir: await adaptersDirOf(cached, profile, acceptsAdapters),
    }
    const server = await ModelServer.start(this.#options.drivers, spec, {
      deadline,
      stopping,
      onPids,
      onLine: (line) => this.#options.onLine?.(cached.spec.model_key, line),
    }).catch((err: unknown) => {
      if (err instanceof NoGpuError) this.#options.gpuHealth?.failed(err.message)
      throw err
    })
    try {
      onWarmUp()
      const signal = AbortSignal.any([stopping, deadline.signal])
      await server.probe(profile.warmup_input ?? cached.spec.warmup_input, signal)
      if (profile.vram_mb > 0 && gpus.length > 0) this.#options.gpuHealth?.worked()
      return server
    } catch (err) {
      onPids(await server.pids())
      await server.stop({ graceMs: 0 })
      if (server.gpuFault !== undefined) this.#options.gpuHealth?.suspect()
      throw err
    }
  }

  async #download(
    spec: NodeModelSpec,
    { signal, keep, onDownload }: PrepareOptions,
    modelKey = spec.model_key,
  ): Promise<CachedModel> {
    onDownload()
    const stalled = new AbortController()
    const stall = () =>
      stalled.abort(new Error(`the download made no progress for ${DOWNLOAD_STALL_TIMEOUT_MS / 1000} s`))
    let timer = setTimeout(stall, DOWNLOAD_STALL_TIMEOUT_MS)
    try {
      return await this.#options.cache.fetch(spec, keep, {
        signal: AbortSignal.any([signal, stalled.signal]),
        renew: async () => {
          const adapters = modelKey !== spec.model_key
          return (await this.#options.modelSpec(modelKey, { signal, adapters })).files
        },
        onProgress: (progress) => {
          clearTimeout(timer)
          timer = setTimeout(stall, DOWNLOAD_STALL_TIMEOUT_MS)
          onDownload(progress)
        },
      })
    } finally {
      clearTimeout(timer)
    }
  }
}

const sizeOf = ({ spec }: CachedModel): number =>
  spec.files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
