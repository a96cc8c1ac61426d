import { spawn } from 'node:child_process'
import { accessSync, chmodSync, constants, mkdirSync, renameSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { withProgress } from '../../platform/async/with-progress.ts'
import { runProgram } from '../../platform/processes/run-program.ts'

/** Finds an executable called `name` on PATH. */
export function onPath(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean)
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

/** Returns whether this user may run the file. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Installs one Go program into the cache, and reports its progress. */
export async function goInstall(
  module: string,
  version: string,
  target: string,
  say: (line: string) => void,
): Promise<void> {
  const go = onPath('go')
  if (!go) throw new Error('there is no `go` to build it with')
  const name = module.split('/').at(-1) ?? module
  const folder = `${join(target, '..')}.build-${process.pid}`
  mkdirSync(folder, { recursive: true })
  try {
    const args = ['install', '-ldflags', '-s -w', `${module}@${version}`]
    await goBuild(go, `${name} ${version}`, args, { gobin: folder }, say)
    mkdirSync(join(target, '..'), { recursive: true })
    chmodSync(join(folder, name), 0o755)
    renameSync(join(folder, name), target)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

interface GoOptions {
  cwd?: string
  gobin?: string
  signal?: AbortSignal | undefined
}

/** Runs the Go compiler and reports its progress. */
export async function goBuild(
  go: string,
  what: string,
  args: string[],
  where: GoOptions,
  say: (line: string) => void,
): Promise<void> {
  say(`building ${what} with ${(await runProgram(go, ['version'])).stdout.trim()}; about five minutes, once`)
  await withProgress(`building ${what}`, say, () => goRun(go, args, where))
}

function goRun(go: string, args: string[], { cwd, gobin, signal }: GoOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, GOFLAGS: '-mod=mod', ...(gobin && { GOBIN: gobin }) }
    const child = spawn(go, args, {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
      ...(cwd && { cwd }),
      ...(signal && { signal }),
    })
    let tail = ''
    child.stderr.on('data', (chunk: Buffer) => (tail = (tail + chunk.toString()).slice(-2000)))
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve()
      else reject(new Error(`go ${args[0]} ended with ${code}: ${tail.trim().split('\n').at(-1) ?? ''}`))
    })
  })
}
