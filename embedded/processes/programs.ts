import { spawn } from 'node:child_process'
import { accessSync, chmodSync, constants, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { runProgram } from '../../platform/processes/run-program.ts'
import { UsageError } from '../options.ts'

const CLI_VERSION = '1.5.1'

/** Finds an executable called `name` on PATH. */
export function onPath(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean)
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Finds the Temporal CLI: on PATH, in the cache, downloaded, or built once. */
export async function findTemporalCli(cacheDir: string, say: (line: string) => void): Promise<string> {
  const cached = join(cacheDir, `temporal-${CLI_VERSION}`, 'temporal')
  const present = onPath('temporal') ?? (isExecutable(cached) ? cached : undefined)
  if (present) return present

  say('Temporal is not on this machine yet: fetching it')
  const failures: string[] = []
  for (const obtain of [download, build]) {
    try {
      const started = Date.now()
      await obtain(cached, say)
      say(`Temporal is ready (${Math.round((Date.now() - started) / 1000)} s)`)
      return cached
    } catch (err) {
      failures.push((err as Error).message.split('\n')[0] ?? '')
    }
  }
  throw new UsageError(
    `No Temporal server: ${failures.join('; ')}. Install the Temporal CLI (\`temporal\` on PATH) or set TEMPORAL_ADDRESS.`,
  )
}

/** Uses the SDK's own download, which only happens when the SDK starts a server. */
async function download(target: string, say: (line: string) => void): Promise<void> {
  say('trying the download of the Temporal SDK')
  const folder = `${join(target, '..')}.download`
  mkdirSync(folder, { recursive: true })
  const { TestWorkflowEnvironment } = await import('@temporalio/testing')
  try {
    const executable = { type: 'cached-download' as const, downloadDir: folder, version: `v${CLI_VERSION}` }
    const environment = await TestWorkflowEnvironment.createLocal({ server: { executable } })
    await environment.teardown()
    const program = readdirSync(folder).find((file) => isExecutable(join(folder, file)))
    if (!program) throw new Error('nothing was downloaded')
    mkdirSync(join(target, '..'), { recursive: true })
    renameSync(join(folder, program), target)
  } catch (cause) {
    throw new Error(`the SDK's download failed (${(cause as Error).message})`, { cause })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Builds the CLI from its Go module; about five CPU-minutes, once per machine. */
async function build(target: string, say: (line: string) => void): Promise<void> {
  await goInstall('github.com/temporalio/cli/cmd/temporal', `v${CLI_VERSION}`, target, say)
}

/** Installs one Go program into the cache, and reports every half minute that it is still working. */
export async function goInstall(
  module: string,
  version: string,
  target: string,
  say: (line: string) => void,
): Promise<void> {
  const go = onPath('go')
  if (!go) throw new Error('there is no `go` to build it with')
  const name = module.split('/').at(-1) ?? module
  say(
    `building ${name} ${version} with ${(await runProgram(go, ['version'])).stdout.trim()}; about five minutes, once`,
  )
  const folder = `${join(target, '..')}.build-${process.pid}`
  mkdirSync(folder, { recursive: true })
  const started = Date.now()
  const ticker = setInterval(
    () => say(`still building ${name} (${Math.round((Date.now() - started) / 1000)} s)`),
    30_000,
  )
  try {
    await goRun(go, ['install', '-ldflags', '-s -w', `${module}@${version}`], folder)
    mkdirSync(join(target, '..'), { recursive: true })
    chmodSync(join(folder, name), 0o755)
    renameSync(join(folder, name), target)
  } finally {
    clearInterval(ticker)
    rmSync(folder, { recursive: true, force: true })
  }
}

function goRun(go: string, args: string[], gobin: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, GOBIN: gobin, GOFLAGS: '-mod=mod' }
    const child = spawn(go, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
    let tail = ''
    child.stderr.on('data', (chunk: Buffer) => (tail = (tail + chunk.toString()).slice(-2000)))
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve()
      else reject(new Error(`go install ended with ${code}: ${tail.trim().split('\n').at(-1) ?? ''}`))
    })
  })
}
