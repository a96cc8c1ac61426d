import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

type Call = (argument: never) => Promise<unknown>
export type Calls = Record<string, Call>

/** A process's CPU seconds and peak memory in bytes since the previous call. */
export interface Usage {
  cpuS: number
  peakBytes: number
}

const SAMPLE_INTERVAL_MS = 20

/** Answers calls from the parent process, and exits with it. */
export function answerCalls(calls: Calls): void {
  let peakBytes = 0
  const sample = () => (peakBytes = Math.max(peakBytes, process.memoryUsage.rss()))
  setInterval(sample, SAMPLE_INTERVAL_MS).unref()
  const usage = async (): Promise<Usage> => {
    sample()
    const { user, system } = process.cpuUsage()
    const answer = { cpuS: (user + system) / 1e6, peakBytes }
    peakBytes = 0
    return answer
  }
  const all: Calls = { usage, ...calls }
  process.on('message', ({ id, name, argument }: { id: number; name: string; argument: never }) => {
    const answer = all[name]?.(argument) ?? Promise.reject(new Error(`there is no ${name}`))
    answer.then(
      (value) => process.send?.({ id, value }),
      (err: unknown) => process.send?.({ id, error: (err as Error).stack }),
    )
  })
  process.once('disconnect', () => process.exit())
}

/** A separate process that answers calls. */
export interface Callee extends AsyncDisposable {
  call<T>(name: string, argument?: unknown): Promise<T>
}

/** Starts a file from this folder. */
export function startCallee(file: string, args: readonly string[]): Callee {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args)
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (err: Error) => void }>()
  child.on('message', ({ id, value, error }: { id: number; value: never; error?: string }) => {
    const { resolve, reject } = waiting.get(id)!
    waiting.delete(id)
    if (error === undefined) resolve(value)
    else reject(new Error(error))
  })
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error(`${file} has ended`))
  })
  let last = 0
  return {
    call: (name, argument) =>
      new Promise((resolve, reject) => {
        waiting.set((last += 1), { resolve, reject })
        child.send({ id: last, name, argument })
      }),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}
