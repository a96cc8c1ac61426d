import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../../platform/log.ts'
import type { NodeEnvironment } from '../../schemas/nodes/node.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { emit } from '../events.ts'
import { withoutPaths } from '../models/without-paths.ts'
import type { ContainerDriver } from '../processes/container-driver.ts'
import { hasPackages, ensurePackages } from './npm-env.ts'
import { ensurePythonEnv, hasPythonEnv } from './python-env.ts'

/** The expected duration and size of an installation, before this machine has measured one. */
const USUAL: Readonly<Record<string, { seconds: number; diskMb: number }>> = {
  tabular: { seconds: 30, diskMb: 600 },
  specialist: { seconds: 20, diskMb: 500 },
  tools: { seconds: 20, diskMb: 400 },
  whisper: { seconds: 20, diskMb: 500 },
  llamacpp: { seconds: 30, diskMb: 300 },
  'llamacpp-cuda': { seconds: 60, diskMb: 600 },
  cuda: { seconds: 60, diskMb: 1_800 },
  llm: { seconds: 200, diskMb: 10_000 },
  kernels: { seconds: 60, diskMb: 2_000 },
  vllm: { seconds: 600, diskMb: 16_000 },
}
const OTHERS = { seconds: 120, diskMb: 2_000 }
const IMAGE = { seconds: 600, diskMb: 20_000 }
/**
 * The estimated remaining time of an installation that takes longer than expected, relative to its time so far; at
 * least `MIN_ETA_S`.
 */
const OVERRUN = 0.5
const MIN_ETA_S = 2
const MEASURED = 'install-times.json'
const MAX_NAME = 100
const MB = 1024 * 1024

export interface EnvironmentsOptions {
  /** The profiles that this node offers. */
  profiles: readonly (Pick<RuntimeProfile, 'profile_id' | 'python_env' | 'npm_env'> &
    Partial<Pick<RuntimeProfile, 'image' | 'model_kind' | 'preference'>>)[]
  /** The container engine that has the images of profiles; absent without one. */
  images?: Pick<ContainerDriver, 'hasImage' | 'pull'> | undefined
  cacheDir: string
  /** The folder of the lock files of Python environments, if it isn't the runtime's own. */
  locksDir?: string | undefined
  log: Logger
}

interface Environment {
  readonly name: string
  readonly kind: 'python' | 'npm' | 'image'
  readonly profiles: string[]
  /** True if this machine can run a better profile for the same models, so that it is installed only on demand. */
  isSpare: boolean
  /** The share of it that has been downloaded, if that is known. */
  share: number | undefined
  state: NodeEnvironment['state']
  startedAt: number
  error: string | undefined
}

/** Returns a function that logs the lines of an installation. */
export const environmentLog =
  (log: Logger) =>
  (line: string): void =>
    emit(log, 'environment.progressed', {}, { line })

/** Manages the environments of this node's profiles: installs them on demand or in advance, and reports progress. */
export class Environments {
  readonly #options: EnvironmentsOptions
  readonly #known = new Map<string, Environment>()

  constructor(options: EnvironmentsOptions) {
    this.#options = options
    for (const profile of options.profiles) {
      const { profile_id, python_env, npm_env, image } = profile
      if (python_env !== null) this.#environment(python_env, 'python').profiles.push(profile_id)
      if (npm_env !== undefined) this.#environment(npm_env, 'npm').profiles.push(profile_id)
      if (image === undefined) continue
      const environment = this.#environment(image, 'image')
      environment.profiles.push(profile_id)
      environment.isSpare = options.profiles.some(
        ({ model_kind, preference = 0 }) =>
          model_kind !== undefined &&
          model_kind === profile.model_kind &&
          preference > (profile.preference ?? 0),
      )
    }
  }

  /** Checks which environments are installed on this machine. */
  async init(): Promise<void> {
    for (const environment of this.#known.values()) {
      const isThere = await this.#isInstalled(environment).catch(() => false)
      if (isThere) environment.state = 'ready'
    }
  }

  /** Returns the interpreter of a locked environment; the first call installs the environment. */
  async python(name: string, tell?: (line: string) => void): Promise<string> {
    const { cacheDir, locksDir, log } = this.#options
    const options = { cacheDir, locksDir, log: tell ?? environmentLog(log) }
    const install = () => ensurePythonEnv(name, options)
    return (await this.#installing(this.#environment(name, 'python'), install)).python
  }

  /** Returns whether a locked environment is installed on this machine. */
  hasPython(name: string): Promise<boolean> {
    return this.#isInstalled({ name, kind: 'python' }).catch(() => false)
  }

  /** Returns whether a locked set of npm packages is installed on this machine. */
  hasPackages(name: string): Promise<boolean> {
    return this.#isInstalled({ name, kind: 'npm' }).catch(() => false)
  }

  /** Returns the folder of a locked set of npm packages; the first call installs them. */
  packages(name: string): Promise<string> {
    const { cacheDir, log } = this.#options
    const install = () => ensurePackages(name, { cacheDir, log: environmentLog(log) })
    return this.#installing(this.#environment(name, 'npm'), install)
  }

  /** Returns whether the image of a profile is on this machine. */
  hasImage(image: string): Promise<boolean> {
    return this.#isInstalled({ name: image, kind: 'image' }).catch(() => false)
  }

  /** Waits until the image of a profile is on this machine; the first call pulls it. */
  async image(name: string): Promise<void> {
    const environment = this.#environment(name, 'image')
    await this.#installing(environment, () => this.#pull(environment))
  }

  async #pull(environment: Environment): Promise<void> {
    const { images } = this.#options
    if (!images) throw new Error('no container engine is available on this node')
    await images.pull(environment.name, (share) => (environment.share = share))
  }

  /** Installs the wanted environments one at a time, cheapest first, at low priority. */
  async prepare(wanted: readonly string[], signal: AbortSignal): Promise<void> {
    const chosen = [...this.#known.values()]
      .filter(
        ({ name, state, isSpare }) =>
          state === 'absent' && (wanted.includes(name) || (wanted.includes('all') && !isSpare)),
      )
      .toSorted((a, b) => costOf(a.name).seconds - costOf(b.name).seconds)
    for (const environment of chosen) {
      if (signal.aborted) return
      if (environment.state !== 'absent') continue
      const problem = await this.#lackOfDisk(environment)
      if (problem !== undefined) {
        environment.error = problem
        emit(this.#options.log, 'environment.not_prepared', { environment: environment.name }, { problem })
        continue
      }
      await this.#inBackground(environment, signal)
    }
  }

  report(): NodeEnvironment[] {
    return [...this.#known.values()].map((environment) => {
      const { name, profiles, state, startedAt, share = 0, error } = environment
      const expected = this.#expectedS(environment)
      const spent = state === 'installing' ? (performance.now() - startedAt) / 1_000 : 0
      const expectedLeft = spent < expected ? expected - spent : spent * OVERRUN
      const left = Math.max(MIN_ETA_S, share > 0 ? (spent * (1 - share)) / share : expectedLeft)
      return {
        // An image that is named by digest may exceed the limit of reports.
        name: name.slice(0, MAX_NAME),
        profiles,
        state,
        ...(state === 'installing' && {
          progress: Math.round(100 * (share || spent / (spent + left))) / 100,
        }),
        ...(state !== 'ready' && { eta_s: Math.ceil(left) }),
        ...(error !== undefined && { error }),
      }
    })
  }

  #environment(name: string, kind: Environment['kind']): Environment {
    const known = this.#known.get(`${kind} ${name}`)
    if (known) return known
    const environment: Environment = {
      name,
      kind,
      profiles: [],
      isSpare: false,
      share: undefined,
      state: 'absent',
      startedAt: 0,
      error: undefined,
    }
    this.#known.set(`${kind} ${name}`, environment)
    return environment
  }

  async #inBackground(environment: Environment, signal: AbortSignal): Promise<void> {
    const { cacheDir, locksDir, log } = this.#options
    const { name, kind } = environment
    const tell = environmentLog(log)
    const installers = {
      python: () => ensurePythonEnv(name, { cacheDir, locksDir, log: tell, isBackground: true, signal }),
      npm: () => ensurePackages(name, { cacheDir, log: tell }),
      image: () => this.#pull(environment),
    }
    // A later caller retries and gets the error.
    await this.#installing<unknown>(environment, installers[kind]).catch(() => {})
  }

  async #installing<T>(environment: Environment, install: () => Promise<T>): Promise<T> {
    const { log } = this.#options
    const isFirst =
      environment.state !== 'installing' && !(await this.#isInstalled(environment).catch(() => false))
    if (isFirst)
      Object.assign(environment, {
        state: 'installing',
        startedAt: performance.now(),
        share: undefined,
        error: undefined,
      })
    try {
      const made = await install()
      if (isFirst) this.#note(environment, (performance.now() - environment.startedAt) / 1_000)
      environment.state = 'ready'
      return made
    } catch (err) {
      const message = err instanceof Error ? err.message : String(err)
      if (isFirst) Object.assign(environment, { state: 'failed', error: withoutPaths(message).slice(0, 500) })
      emit(log, 'environment.install_failed', { environment: environment.name, err: message })
      throw err
    }
  }

  #isInstalled({ name, kind }: Pick<Environment, 'name' | 'kind'>): Promise<boolean> {
    const { cacheDir, locksDir, images } = this.#options
    const options = { cacheDir, log: () => {} }
    if (kind === 'image') return images?.hasImage(name) ?? Promise.resolve(false)
    return kind === 'python' ? hasPythonEnv(name, { ...options, locksDir }) : hasPackages(name, options)
  }

  async #lackOfDisk({ name, kind }: Environment): Promise<string | undefined> {
    // Images are on the engine's own disk.
    if (kind === 'image') return undefined
    const { cacheDir } = this.#options
    mkdirSync(cacheDir, { recursive: true })
    const { bavail, bsize } = await statfs(cacheDir)
    const freeMb = Math.floor((bavail * bsize) / MB)
    const { diskMb } = costOf(name)
    return freeMb < diskMb
      ? `it needs about ${diskMb} MB of disk space, but only ${freeMb} MB are free`
      : undefined
  }

  #expectedS({ name }: Environment): number {
    return this.#measured()[name] ?? costOf(name).seconds
  }

  /** Reads the measured durations, which are stored next to the environments for all nodes on this machine. */
  #measured(): Record<string, number> {
    try {
      return JSON.parse(readFileSync(join(this.#options.cacheDir, MEASURED), 'utf8')) as Record<
        string,
        number
      >
    } catch {
      return {}
    }
  }

  #note({ name }: Environment, seconds: number): void {
    const all = { ...this.#measured(), [name]: Math.round(seconds * 10) / 10 }
    try {
      writeFileSync(join(this.#options.cacheDir, MEASURED), JSON.stringify(all))
    } catch {
      // We only lose an estimate.
    }
  }
}

const costOf = (name: string) => USUAL[name] ?? (name.includes('/') ? IMAGE : OTHERS)
