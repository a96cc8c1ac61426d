import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Hearth, hearth } from '../../../client/index.ts'
import { readIdentity } from '../../../embedded/processes/pid-files.ts'
import type { ReadyFile } from '../../../embedded/supervisor.ts'
import { type BuilderClient, builderClient } from './clients/builder-client.ts'

export type Process = 'api' | 'control' | 'gate' | 'node' | 'temporal' | 'postgres'

/** Creates a data directory; disposing it removes it and kills all processes that still use it. */
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
  ready: ReadyFile
  h: Hearth
  /** A client that never retries, for load that a platform must withstand. */
  api: BuilderClient
  supervisor: ChildProcess
  /** Returns all of its output. */
  output(): string
  /** Stops it with SIGTERM; returns the duration. */
  stop(): Promise<number>
  /** Kills one of its processes with SIGKILL; returns its pid. */
  kill(name: Process): number
  pidOf(name: Process): number | undefined
}

/** A startup that takes longer is considered stuck. */
const START_MS = 300_000

/** Runs `npm start` on a data directory until its ready file exists. */
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
  const ready = JSON.parse(readFileSync(readyFile, 'utf8')) as ReadyFile
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

/** Starts the `npm start` program without npm. */
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
      // A process without a command line is a zombie.
      return command !== '' && mentions ? [{ pid, command }] : []
    } catch {
      return []
    }
  })
}

/** Returns the live processes of a group, without zombies. */
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
