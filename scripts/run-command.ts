import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { signalGroup } from '../platform/processes/signals.ts'

interface RunOptions {
  env?: NodeJS.ProcessEnv
  minutes?: number
  /** `afterwards` prints the output when the command has ended, so that it doesn't mix with other output. */
  output?: 'live' | 'afterwards'
}

/** How long to wait for the last output after a command has ended. */
const OUTPUT_TIMEOUT_MS = 1_000

const running = new Set<ChildProcess>()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    for (const child of running) signalAll(child, 'SIGTERM')
    process.exit(130)
  })
}

/** Runs one command until it ends or its time limit is reached; returns whether it succeeded. */
export function run([command = '', ...args]: string[], options: RunOptions = {}): Promise<boolean> {
  const { env = {}, minutes = 10, output = 'live' } = options
  const stdio = output === 'live' ? ('inherit' as const) : ('pipe' as const)
  // The command gets its own process group, so that we can find processes it leaves behind.
  const child = spawn(command, args, {
    stdio: ['ignore', stdio, stdio],
    env: { ...process.env, ...env },
    detached: true,
  })
  running.add(child)
  const kept: Buffer[] = []
  const streams = [child.stdout, child.stderr]
  for (const stream of streams) stream?.on('data', (chunk: Buffer) => kept.push(chunk))
  return new Promise((resolve) => {
    const timer = setTimeout(() => stopLate(child, minutes), minutes * 60_000)
    const end = (ok: boolean) => {
      clearTimeout(timer)
      running.delete(child)
      for (const stream of streams) stream?.destroy()
      if (kept.length > 0) process.stdout.write(Buffer.concat(kept))
      resolve(ok)
    }
    child.once('error', (err) => {
      console.log(`   ${command}: ${err.message}`)
      end(false)
    })
    child.once('exit', (code) => {
      signalAll(child, 'SIGKILL')
      const late = setTimeout(() => end(code === 0), OUTPUT_TIMEOUT_MS)
      child.once('close', () => {
        clearTimeout(late)
        end(code === 0)
      })
    })
  })
}

function stopLate(child: ChildProcess, minutes: number): void {
  console.log(`   stopped after the limit of ${minutes} minutes`)
  signalAll(child, 'SIGTERM')
  setTimeout(() => signalAll(child, 'SIGKILL'), 12_000).unref()
}

/** Signals a command and all processes of its group. */
function signalAll({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid !== undefined) signalGroup(pid, signal)
}
