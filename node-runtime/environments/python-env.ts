import { spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { mkdir, readFile, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { constants, hostname, setPriority } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { withProgress } from '../../platform/async/with-progress.ts'
import { createLockFile, removeAbandonedLock } from '../../platform/processes/lock-file.ts'
import { isRunning } from '../../platform/processes/process-identity.ts'
import { childEnv } from '../processes/confinement.ts'

/** A complete Python environment on this machine. */
export interface PythonEnv {
  /** The interpreter of the environment. */
  python: string
  directory: string
}

export interface PythonEnvOptions {
  /** The folder of environments, outside the checkout and shared by all checkouts on this machine. */
  cacheDir: string
  log: (line: string) => void
  /** The folder of the lock files, with one folder per environment; defaults to node-runtime/environments/python. */
  locksDir?: string | undefined
  /** The interpreter to build on; defaults to one from PATH. */
  basePython?: string | undefined
  signal?: AbortSignal | undefined
  /** True to install at low priority. */
  isBackground?: boolean
}

const LOCKS = join(dirname(fileURLToPath(import.meta.url)), 'python')
type Version = readonly [major: number, minor: number]
const OLDEST: Version = [3, 10]
const CANDIDATES = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3.14', 'python']
const HEARTBEAT_INTERVAL_MS = 1_000
const STALE_LOCK_TTL_MS = 15_000

const underWay = new Map<string, Promise<PythonEnv>>()

/**
 * Creates the locked environment `name` unless this machine has it. Safe for any number of callers and processes: it is
 * built under a temporary name and renamed, so a partial one is never visible.
 */
export async function ensurePythonEnv(name: string, options: PythonEnvOptions): Promise<PythonEnv> {
  const env = await whereIs(name, options)
  if (isComplete(env)) return env

  const running = underWay.get(env.directory)
  if (running) return running
  const work = build(name, env, options).finally(() => underWay.delete(env.directory))
  underWay.set(env.directory, work)
  return work
}

/** Returns whether the environment is installed on this machine. */
export const hasPythonEnv = async (name: string, options: PythonEnvOptions): Promise<boolean> =>
  isComplete(await whereIs(name, options))

/**
 * Returns the environment variables for a process in a locked Python environment, without the caller's Python settings
 * and secrets.
 */
export const pythonProcessEnv = (extra: Record<string, string> = {}): NodeJS.ProcessEnv =>
  // Don't disable bytecode: with it on disk, imports take a third of the time.
  childEnv({ PYTHONUNBUFFERED: '1', PYTHONNOUSERSITE: '1', ...extra })

/**
 * Variables that configure where a machine gets packages from: proxies, package index, certificates. Variables that
 * change which packages are installed, or where, are excluded.
 */
const INSTALLER_SETTINGS =
  /^(?:https?_proxy|all_proxy|no_proxy|HOME|XDG_CONFIG_HOME|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|CERT|CLIENT_CERT|TRUSTED_HOST|PROXY|DEFAULT_TIMEOUT|TIMEOUT|RETRIES|CONFIG_FILE|CACHE_DIR|NO_CACHE_DIR))$/i

const installerSettings = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      INSTALLER_SETTINGS.test(name) && value !== undefined ? [[name, value]] : [],
    ),
  )

async function whereIs(name: string, options: PythonEnvOptions): Promise<PythonEnv> {
  const lock = await readFile(lockFile(name, options)).catch((cause: unknown) => {
    throw new Error(`There is no locked Python environment named ${name}`, { cause })
  })
  const digest = createHash('sha256')
    .update(`${process.platform}/${process.arch}\n`)
    .update(lock)
    .digest('hex')
  const directory = join(options.cacheDir, 'python', `${name}-${digest.slice(0, 16)}`)
  return { directory, python: join(directory, 'bin', 'python') }
}

const lockFile = (name: string, { locksDir = LOCKS }: PythonEnvOptions): string =>
  join(locksDir, name, 'requirements.lock')

/** Returns the oldest Python that an environment's project allows; the lock was resolved for that version and newer. */
async function oldestFor(name: string, options: PythonEnvOptions): Promise<Version> {
  const project = await readFile(join(dirname(lockFile(name, options)), 'pyproject.toml'), 'utf8').catch(
    () => '',
  )
  const [, major, minor] = /^requires-python = ">=(\d+)\.(\d+)"/m.exec(project) ?? []
  return major && minor ? [Number(major), Number(minor)] : OLDEST
}

/** The marker file is written last. The symlink to the base interpreter breaks if the interpreter is uninstalled. */
const isComplete = ({ directory, python }: PythonEnv): boolean =>
  existsSync(join(directory, 'complete')) && existsSync(python)

async function build(name: string, env: PythonEnv, options: PythonEnvOptions): Promise<PythonEnv> {
  await mkdir(dirname(env.directory), { recursive: true })
  await using _lock = await machineLock(`${env.directory}.lock`, options, () =>
    options.log(`Python environment ${name}: waiting for another process that is creating it`),
  )
  if (isComplete(env)) return env

  const base = await findPython(options, await oldestFor(name, options))
  options.log(`Python environment ${name}: creating it with ${base} (once per machine)`)
  await removeLeftovers(env.directory)

  const started = performance.now()
  const draft = `${env.directory}.draft-${randomUUID()}`
  try {
    const making = `creating the Python environment ${name}`
    await withProgress(making, options.log, () => run(base, ['-m', 'venv', draft], options))
    const python = join(draft, 'bin', 'python')
    const install = [
      '-m',
      'pip',
      'install',
      '--require-hashes',
      // The lock is complete; packages that aren't in it must not be installed.
      '--no-deps',
      '--progress-bar',
      'off',
      '-r',
      lockFile(name, options),
    ]
    const args = [...install, '--no-input', '--disable-pip-version-check']
    const report = (line: string) => {
      const fetched = /^\s*Collecting (\S+)/.exec(line)?.[1]
      if (fetched) options.log(`Python environment ${name}: ${fetched}`)
      else if (line.startsWith('Installing')) options.log(`Python environment ${name}: installing`)
    }
    await withProgress(making, options.log, () => run(python, args, options, report))
    await writeFile(join(draft, 'complete'), `${base}\n`)
    await publish(draft, env)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  options.log(
    `Python environment ${name}: ready after ${((performance.now() - started) / 1000).toFixed(1)} s`,
  )
  return env
}

async function publish(draft: string, env: PythonEnv): Promise<void> {
  // An existing directory is either broken (without an interpreter) or complete. In the latter case another process
  // considered our lock stale and created it.
  if (!isComplete(env)) await rm(env.directory, { recursive: true, force: true })
  await rename(draft, env.directory).catch((error: unknown) => {
    if (!isComplete(env)) throw error
  })
}

async function removeLeftovers(directory: string): Promise<void> {
  const prefix = `${basename(directory)}.draft-`
  const names = await readdir(dirname(directory))
  const drafts = names.filter((name) => name.startsWith(prefix))
  await Promise.all(
    drafts.map((name) => rm(join(dirname(directory), name), { recursive: true, force: true })),
  )
}

/** Finds a recent enough interpreter on this machine. If there is none, throws an error that lists those it found. */
export async function findPython(options: PythonEnvOptions, oldest = OLDEST): Promise<string> {
  const seen: string[] = []
  const probe = 'import sys, venv, ensurepip; print(sys.version_info[0], sys.version_info[1], sys.executable)'
  for (const candidate of options.basePython ? [options.basePython] : CANDIDATES) {
    try {
      const [major = '0', minor = '0', ...rest] = (await run(candidate, ['-c', probe], options))
        .trim()
        .split(' ')
      const version = [Number(major), Number(minor)] as const
      if (version[0] === oldest[0] && version[1] >= oldest[1]) return rest.join(' ')
      seen.push(`${candidate} is ${major}.${minor}`)
    } catch (error) {
      options.signal?.throwIfAborted()
      if (isMissing(error)) continue
      const text = error instanceof Error ? error.message : String(error)
      seen.push(
        /No module named '?(venv|ensurepip)/.test(text) ? `${candidate} lacks venv` : `${candidate} fails`,
      )
    }
  }
  const found = seen.length ? ` Found: ${seen.join(', ')}.` : ' No Python was found.'
  const hint = seen.some((line) => line.endsWith('lacks venv'))
    ? ' On Debian and Ubuntu install python3-venv.'
    : ''
  throw new Error(
    `Python ${oldest.join('.')} or newer with its venv module is needed on PATH.${found}${hint}`,
  )
}

const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT'

/**
 * Runs a program to completion and returns its output. If it fails, the error contains the last lines of the output.
 */
async function run(
  command: string,
  args: readonly string[],
  { signal, isBackground = false }: PythonEnvOptions,
  onLine?: (line: string) => void,
): Promise<string> {
  const env = pythonProcessEnv(installerSettings())
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'], ...(signal && { signal }) })
  if (isBackground && child.pid !== undefined) yieldProcessor(child.pid)
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line)
      onLine?.(line)
    })
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0) {
    throw new Error(
      `${command} ${args.slice(0, 3).join(' ')} failed (${code}):\n${lines.slice(-15).join('\n')}`,
    )
  }
  return lines.join('\n')
}

function yieldProcessor(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // The process has exited, or this system does not support priorities.
  }
}

/**
 * Keeps processes on this machine from doing the same work twice. The owner touches the file every second. A killed
 * owner is detected by its process id or by the age of the file. A lost lock costs time but never correctness.
 */
async function machineLock(
  file: string,
  options: PythonEnvOptions,
  onWait: () => void,
): Promise<AsyncDisposable> {
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`
  options.signal?.throwIfAborted()
  for (let hasReported = false; !createLockFile(file, owner); options.signal?.throwIfAborted()) {
    if (isAbandoned(file)) {
      removeAbandonedLock(file, isAbandoned)
      continue
    }
    if (!hasReported) onWait()
    hasReported = true
    await sleep(250)
  }
  const beat = setInterval(
    () => void utimes(file, new Date(), new Date()).catch(() => {}),
    HEARTBEAT_INTERVAL_MS,
  )
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(beat)
      if ((await readFile(file, 'utf8').catch(() => '')) === owner) await rm(file, { force: true })
    },
  }
}

function isAbandoned(file: string): boolean {
  try {
    if (Date.now() - statSync(file).mtimeMs > STALE_LOCK_TTL_MS) return true
    const [host, pid] = readFileSync(file, 'utf8').split(' ')
    return host === hostname() && Number(pid) > 0 && !isRunning(Number(pid))
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
