import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { backoff } from '../../platform/async/retry.ts'
import { signalGroup } from '../../platform/processes/signals.ts'
import type { Output } from '../output.ts'
import { removePidFile, writePidFile } from './pid-files.ts'

const RETRY_DELAY_MS = { first: 200, longest: 5_000 }
/** A child that ran this long is restarted without delay. */
const STABLE_AFTER_MS = 20_000
/** The exit code of our main processes for an invalid setting. */
const WRONG_SETTING = 2
/** The exit code of a node that the platform has dismissed. */
const DISMISSED = 3

/** A process that the supervisor keeps running. */
export interface ChildSpec {
  name: string
  command: string
  args: string[]
  env: NodeJS.ProcessEnv
  cwd: string
  uid?: number
  gid?: number
  stopSignal: NodeJS.Signals
  /** True to print its lines on the console in addition to its log file. */
  echo: boolean
  /** Runs before each restart, after a crash of this child. */
  beforeRestart?: () => Promise<void>
}

export interface Child {
  readonly name: string
  readonly pid: number | undefined
  /** The number of unexpected exits in a row, each soon after a start. */
  readonly failures: number
  /** True when the child's exit code says that it cannot run with its settings. */
  readonly refused: boolean
  /** Signals the child to stop, then kills its process group; the child is not restarted. */
  stop(graceMs: number): Promise<void>
}

/** Starts a child in its own process group and restarts it whenever it exits unexpectedly. */
export function superviseChild(
  spec: ChildSpec,
  { runDir, output }: { runDir: string; output: Output },
): Child {
  let current: ChildProcess | undefined
  let stopping = false
  let failures = 0
  let refused = false
  const abort = new AbortController()

  const run = async () => {
    while (!stopping) {
      const startedAt = Date.now()
      current = launch(spec, output)
      if (current.pid !== undefined) writePidFile(runDir, spec.name, current.pid)
      const how = await ended(current)
      // Kill the rest of the child's process group too.
      if (current.pid !== undefined) signalGroup(current.pid, 'SIGKILL')
      removePidFile(runDir, spec.name)
      refused = current.exitCode === WRONG_SETTING
      if (stopping) return
      if (current.exitCode === DISMISSED)
        return output.say(`${spec.name} has stopped and will not be restarted; see its log for the reason`)

      failures = Date.now() - startedAt > STABLE_AFTER_MS ? 1 : failures + 1
      const delay = backoff(failures - 1, RETRY_DELAY_MS)
      output.say(`${spec.name} exited unexpectedly (${how}); restarting in ${delay / 1000} s`)
      await sleep(delay, undefined, { signal: abort.signal }).catch(() => {})
      if (!stopping) await spec.beforeRestart?.()
    }
  }
  const done = run()

  return {
    name: spec.name,
    get pid() {
      return current?.pid
    },
    get failures() {
      return failures
    },
    get refused() {
      return refused
    },
    async stop(graceMs) {
      stopping = true
      abort.abort()
      if (current?.pid === undefined || current.exitCode !== null || current.signalCode !== null) return done
      current.kill(spec.stopSignal)
      const timer = setTimeout(() => current?.pid && signalGroup(current.pid, 'SIGKILL'), graceMs)
      await done
      clearTimeout(timer)
    },
  }
}

function launch(spec: ChildSpec, output: Output): ChildProcess {
  const child = spawn(spec.command, spec.args, {
    cwd: spec.cwd,
    env: spec.env,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(spec.uid !== undefined && { uid: spec.uid }),
    ...(spec.gid !== undefined && { gid: spec.gid }),
  })
  child.stdin.on('error', () => {})
  output.follow(spec.name, [child.stdout, child.stderr], { echo: spec.echo })
  return child
}

async function ended(child: ChildProcess): Promise<string> {
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    return signal ?? `exit code ${code}`
  } catch (err) {
    return (err as Error).message
  }
}
