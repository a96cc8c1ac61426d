import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { pythonProcessEnv } from '../node-runtime/environments/python-env.ts'

const MAX_COMPLAINT = 2_000

/** The wall-clock and CPU time of some work. */
export interface CpuTimes {
  clock: number
  cpu: number
}

/** A Python program that prints a line when it's ready, and then does one piece of work per input line. */
export interface LineProgram extends AsyncDisposable {
  readonly pid: number
  /** The line that reported readiness. */
  readonly first: string
  /** Returns the seconds that the program measured for this line. */
  seconds(line: string): Promise<CpuTimes>
}

interface LineProgramOptions {
  threads?: number
  env?: Record<string, string>
  /** Kills the program. */
  signal?: AbortSignal | undefined
}

/** Starts a program, by default on one thread; `args` start with its file. */
export async function startLineProgram(
  python: string,
  args: readonly string[],
  { threads = 1, env = {}, signal }: LineProgramOptions = {},
): Promise<LineProgram> {
  const child = spawn(python, args, {
    env: pythonProcessEnv({ OMP_NUM_THREADS: String(threads), HF_HUB_OFFLINE: '1', ...env }),
    stdio: ['pipe', 'pipe', 'pipe'],
    killSignal: 'SIGKILL',
    signal,
  })
  // The end of its output reports a program that was aborted or could not be started.
  child.on('error', () => {})
  let complaint = ''
  child.stderr.on(
    'data',
    (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-MAX_COMPLAINT)),
  )
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async (): Promise<string> => {
    const { value, done } = await lines.next()
    if (done) throw new Error(`${args[0]} has ended: ${complaint.trimEnd().split('\n').at(-1)}`)
    return value
  }
  return {
    pid: child.pid ?? 0,
    first: await next(),
    async seconds(line) {
      child.stdin.write(`${line}\n`)
      const [clock = 0, cpu = 0] = (await next()).split(' ').map(Number)
      return { clock, cpu }
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}
