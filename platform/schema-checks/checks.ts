import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setPriority } from 'node:os'
import type { CheckOrder, CheckReply } from './child.ts'

export const CHECK_LIMITS = {
  children: 2,
  /** For compiling a schema and checking a value; starting a child does not count. */
  deadlineMs: 3_000,
  /** Of one owner, waiting. */
  perOwner: 32,
  /** For its turn. */
  waitMs: 15_000,
  /** How long an owner counts as slow after one of its checks was stopped. */
  slowMs: 60_000,
  /** Between a check that was stopped and the next one of a slow owner. */
  restMs: 9_000,
  heapMb: 256,
}
type Limits = typeof CHECK_LIMITS

/** Schemas that a child keeps compiled: their text, of which the compiled one is some six times. */
const KEPT_BYTES = 4 * 1024 * 1024
/** Below whoever answers requests. */
const PRIORITY = 10
const SWEEP_MS = 500

export interface CheckRequest {
  /** Whose check this is: owners take turns. */
  owner: string
  /** Names the schema: the same key always stands for the same one. */
  key: string
  schema: Readonly<Record<string, unknown>>
  /** JSON text. */
  value: Uint8Array
}

/** What came of a check; `stopped` when it took too long or too much memory, `busy` when there was no room for it. */
export type CheckResult = CheckReply | { readonly busy: true }

interface Waiting extends CheckRequest {
  readonly since: number
  readonly resolve: (result: CheckResult) => void
  readonly reject: (err: Error) => void
}

interface Checker {
  readonly child: ChildProcess
  isReady: boolean
  readonly known: Set<string>
  knownBytes: number
  current: Waiting | undefined
  deadline: NodeJS.Timeout | undefined
}

/**
 * Compiles schemas that callers wrote, and holds values against them, in child processes that are killed when one takes too
 * long. Not in threads: a thread that runs out of memory inside the engine takes the whole process with it. An owner has one
 * check at work at a time; those whose checks had to be stopped share one child, so that the others always find one.
 */
export class SchemaChecks implements AsyncDisposable {
  readonly #limits: Limits
  readonly #checkers = new Set<Checker>()
  readonly #queues = new Map<string, Waiting[]>()
  readonly #atWork = new Set<string>()
  readonly #slowUntil = new Map<string, number>()
  #slowAgainAt = 0
  #sweeper: NodeJS.Timeout | undefined
  #closed = false

  constructor(limits: Partial<Limits> = {}) {
    this.#limits = { ...CHECK_LIMITS, ...limits }
  }

  check(request: CheckRequest): Promise<CheckResult> {
    const queue = this.#queues.get(request.owner) ?? []
    if (this.#closed || queue.length >= this.#limits.perOwner) return Promise.resolve({ busy: true })
    this.#queues.set(request.owner, queue)
    return new Promise((resolve, reject) => {
      queue.push({ ...request, since: performance.now(), resolve, reject })
      this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
      this.#feed()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    clearInterval(this.#sweeper)
    for (const queue of this.#queues.values()) for (const { resolve } of queue) resolve({ busy: true })
    this.#queues.clear()
    const checkers = [...this.#checkers]
    const gone = checkers
      .map(({ child }) => child)
      .filter(
        ({ pid, exitCode, signalCode }) => pid !== undefined && exitCode === null && signalCode === null,
      )
      .map((child) => once(child, 'exit'))
    for (const checker of checkers) this.#end(checker, { busy: true })
    await Promise.all(gone)
  }

  #feed(): void {
    for (let owner = this.#nextOwner(); owner !== undefined; owner = this.#nextOwner()) {
      const checker = this.#freeChecker()
      if (!checker?.isReady) return
      const next = this.#take(owner)
      if (next) this.#start(checker, next)
    }
  }

  /** The owner whose turn it is: who has waited longest stands first. */
  #nextOwner(): string | undefined {
    const now = performance.now()
    const isSlow = (owner: string): boolean => (this.#slowUntil.get(owner) ?? 0) > now
    const takesSlow = now >= this.#slowAgainAt && ![...this.#atWork].some(isSlow)
    for (const owner of this.#queues.keys()) {
      if (!this.#atWork.has(owner) && (takesSlow || !isSlow(owner))) return owner
    }
    return undefined
  }

  #take(owner: string): Waiting | undefined {
    const queue = this.#queues.get(owner)
    const next = queue?.shift()
    // Whoever has more to do goes to the end of the line.
    this.#queues.delete(owner)
    if (queue && queue.length > 0) this.#queues.set(owner, queue)
    return next
  }

  #start(checker: Checker, next: Waiting): void {
    this.#atWork.add(next.owner)
    checker.current = next
    const forget = checker.knownBytes > KEPT_BYTES
    if (forget) {
      checker.known.clear()
      checker.knownBytes = 0
    }
    const schema = checker.known.has(next.key) ? undefined : JSON.stringify(next.schema)
    if (schema !== undefined) {
      checker.known.add(next.key)
      checker.knownBytes += schema.length
    }
    const { deadlineMs } = this.#limits
    const order: CheckOrder = { key: next.key, schema, value: next.value, forget, deadlineMs }
    // A child that is gone says so by its end.
    checker.child.send(order, () => undefined)
    // The child stops in time by itself, unless it is busy collecting garbage.
    checker.deadline = setTimeout(() => this.#end(checker, { stopped: true }), deadlineMs + SWEEP_MS)
  }

  #freeChecker(): Checker | undefined {
    let starting: Checker | undefined
    for (const checker of this.#checkers) {
      if (!checker.isReady) starting = checker
      else if (!checker.current) return checker
    }
    return starting ?? (this.#checkers.size < this.#limits.children ? this.#open() : undefined)
  }

  #open(): Checker {
    const child = fork(new URL('./start-child.mjs', import.meta.url), [], {
      serialization: 'advanced',
      execArgv: [`--max-old-space-size=${this.#limits.heapMb}`, '--max-semi-space-size=8'],
      // Nothing of this process is needed there, least of all its secrets.
      env: { PATH: process.env.PATH },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    const checker: Checker = {
      child,
      isReady: false,
      known: new Set(),
      knownBytes: 0,
      current: undefined,
      deadline: undefined,
    }
    child.unref()
    child.channel?.unref()
    child.on('message', (reply: CheckReply | 'ready') => {
      if (reply === 'ready') this.#ready(checker)
      else this.#finish(checker, reply)
      this.#feed()
    })
    child.on('error', (err) => this.#lost(checker, err))
    child.on('exit', (code, signal) => {
      this.#lost(checker, new Error(`a process that checks schemas ended with ${code ?? signal}`))
    })
    this.#checkers.add(checker)
    return checker
  }

  #ready(checker: Checker): void {
    checker.isReady = true
    const { pid } = checker.child
    try {
      if (pid !== undefined) setPriority(pid, PRIORITY)
    } catch {
      // It ended meanwhile, of which its exit tells.
    }
  }

  #finish(checker: Checker, reply: CheckReply): void {
    // What was broken off may have left its compiler in the middle of something.
    if ('stopped' in reply) return this.#end(checker, reply)
    // The child keeps only what it could compile.
    if (checker.current && !('faults' in reply)) checker.known.delete(checker.current.key)
    this.#settle(checker, reply)
  }

  /** It ended by itself: out of memory, or unable to start. */
  #lost(checker: Checker, err: Error): void {
    // One that cannot even start would be started for ever.
    if (!checker.isReady && this.#checkers.has(checker)) {
      const queues = [...this.#queues.values()]
      this.#queues.clear()
      for (const queue of queues) for (const { reject } of queue) reject(err)
    }
    this.#end(checker, { stopped: true })
  }

  /** Ends a child with whatever it is at; the next check that needs one starts another. */
  #end(checker: Checker, result: CheckResult): void {
    if (!this.#checkers.delete(checker)) return
    this.#settle(checker, result)
    checker.child.kill('SIGKILL')
    if (!this.#closed) this.#feed()
  }

  #settle(checker: Checker, result: CheckResult): void {
    const { current } = checker
    clearTimeout(checker.deadline)
    checker.current = undefined
    if (!current) return
    this.#atWork.delete(current.owner)
    if ('stopped' in result) {
      this.#slowUntil.set(current.owner, performance.now() + this.#limits.slowMs)
      this.#slowAgainAt = performance.now() + this.#limits.restMs
    }
    current.resolve(result)
  }

  /** Lets go who has waited too long, and forgets who is no longer slow. */
  #sweep(): void {
    const now = performance.now()
    for (const [owner, until] of this.#slowUntil) if (until <= now) this.#slowUntil.delete(owner)
    for (const [owner, queue] of this.#queues) {
      while (queue[0] && now - queue[0].since > this.#limits.waitMs) queue.shift()?.resolve({ busy: true })
      if (queue.length === 0) this.#queues.delete(owner)
    }
    this.#feed()
  }
}
