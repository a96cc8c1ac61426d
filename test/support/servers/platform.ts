import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Hearth, hearth } from '../../../client/index.ts'
import { readIdentity } from '../../../embedded/processes/pid-files.ts'
import type { Ready } from '../../../embedded/supervisor.ts'
import { type BuilderClient, builderClient } from './builder-client.ts'

export type Process = 'api' | 'control' | 'gate' | 'node' | 'temporal' | 'postgres'

/** A data directory of its own, removed at the end with whatever still runs on it. */
export function dataDirectory(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'hearth-e2e-'))
  return {
    path,
    [Symbol.dispose]() {
      for (const { pid } of processesOn(path)) process.kill(pid, 'SIGKILL')
      rmSync(path, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** A platform started as a user starts it. */
export interface TestPlatform extends AsyncDisposable {
  ready: Ready
  h: Hearth
  /** Requests that are sent once, for what a platform has to stand. */
  api: BuilderClient
  supervisor: ChildProcess
  /** Everything that it printed. */
  output(): string
  /** Stops it by SIGTERM; returns the duration. */
  stop(): Promise<number>
  /** Kills one of its processes at once; answers the pid it had. */
  kill(name: Process): number
  pidOf(name: Process): number | undefined
}

/** A start that takes longer is stuck. */
const START_MS = 300_000

/** `npm start` on a data directory, up to its ready file. */
export async function startTestPlatform(
  dataDir: string,
  { args = [], env = {} }: { args?: string[]; env?: NodeJS.ProcessEnv } = {},
): Promise<TestPlatform> {
  const readyFile = join(dataDir, 'ready.json')
  rmSync(readyFile, { force: true })
  const supervisor = startSupervisor(dataDir, ['--ready-file', readyFile, ...args], env)
  const text: string[] = []
  for (const stream of [supervisor.stdout, supervisor.stderr])
    stream?.on('data', (chunk) => text.push(String(chunk)))
  const deadline = Date.now() + START_MS
  while (!existsSync(readyFile)) {
    const hasEnded = supervisor.exitCode !== null || supervisor.signalCode !== null
    if (hasEnded || Date.now() > deadline) {
      supervisor.kill('SIGKILL')
      throw new Error(`the platform ${hasEnded ? 'did not start' : 'hangs'}:\n${text.join('').slice(-4000)}`)
    }
    await sleep(50)
  }
  const ready = JSON.parse(readFileSync(readyFile, 'utf8')) as Ready
  const pidOf = (name: Process) => readIdentity(join(dataDir, 'run', `${name}.pid`))?.pid
  const stop = async () => {
    const started = performance.now()
    if (supervisor.exitCode === null && supervisor.signalCode === null) {
      supervisor.kill('SIGTERM')
      await once(supervisor, 'exit')
    }
    return performance.now() - started
  }
  return {
    ready,
    h: hearth({ baseUrl: ready.base_url, apiKey: ready.api_key }),
    api: builderClient(ready.base_url, ready.api_key),
    supervisor,
    output: () => text.join(''),
    stop,
    pidOf,
    kill(name) {
      const pid = pidOf(name)
      if (pid === undefined) throw new Error(`${name} is not running`)
      process.kill(pid, 'SIGKILL')
      return pid
    },
    [Symbol.asyncDispose]: async () => void (await stop()),
  }
}

/** Starts the main of `npm start`, without npm. */
export function startSupervisor(dataDir: string, args: string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, ['embedded/start.ts', ...args], {
    env: { ...process.env, HEARTH_DATA_DIR: dataDir, HEARTH_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Returns every live process with the directory in its command or environment. */
export function processesOn(dataDir: string): { pid: number; command: string }[] {
  const pids = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
  return pids.flatMap((pid) => {
    if (pid === process.pid) return []
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
      const mentions =
        command.includes(dataDir) || readFileSync(`/proc/${pid}/environ`, 'utf8').includes(dataDir)
      // A process without a command line has ended and waits to be collected.
      return command !== '' && mentions ? [{ pid, command }] : []
    } catch {
      return []
    }
  })
}

/** The live processes of a group; those that have ended and wait to be collected do not count. */
export function liveInGroup(group: number): number[] {
  const pids = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
  return pids.filter((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const [state, , processGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return state !== 'Z' && Number(processGroup) === group
    } catch {
      return false
    }
  })
}
