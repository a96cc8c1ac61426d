import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setPriority } from 'node:os'
import type { CheckOrder, CheckReply } from './child.ts'

export const CHECK_LIMITS = {
  children: 2,
  /** The time limit for compiling a schema and checking a value, not including the start of a child. */
  deadlineMs: 3_000,
  /** The number of waiting checks per owner. */
  perOwner: 32,
  /**
   * The longest wait for a turn. It must exceed the total of a stopped check, the pause after it and a child's start
   * under load.
   */
  waitMs: 30_000,
  /** The time for which an owner counts as slow after one of its checks was stopped. */
  slowMs: 60_000,
  /** The pause between a stopped check and a slow owner's next one. */
  restMs: 9_000,
  heapMb: 256,
}
type Limits = typeof CHECK_LIMITS

/** The size of the schemas that a child caches, in bytes of their text; compiled ones are about six times as large. */
const KEPT_BYTES = 4 * 1024 * 1024
/** A lower priority than that of the processes that serve requests. */
const PRIORITY = 10
const SWEEP_INTERVAL_MS = 500

export interface CheckRequest {
  /** The owner of the check; owners take turns. */
  owner: string
  /** The key of the schema: the same key always means the same schema. */
  key: string
  schema: Readonly<Record<string, unknown>>
  /** JSON text. */
  value: Uint8Array
}

/** The result of a check: `stopped` when it used too much time or memory, `busy` when there was no capacity for it. */
export type CheckResult = CheckReply | { readonly busy: true }

interface PendingCheck extends CheckRequest {
  readonly since: number
  readonly resolve: (result: CheckResult) => void
  readonly reject: (err: Error) => void
}

interface Checker {
  readonly child: ChildProcess
  isReady: boolean
  readonly known: Set<string>
  knownBytes: number
  current: PendingCheck | undefined
  deadline: NodeJS.Timeout | undefined
}

/**
 * Compiles schemas that callers wrote, and validates values against them, in child processes that are killed when a
 * check takes too long. We don't use threads, because one that runs out of memory inside the engine ends the whole
 * process. Each owner has one running check at a time. Owners whose checks had to be stopped share one child, so that
 * others always find a free one.
 */
export class SchemaChecks implements AsyncDisposable {
  readonly #limits: Limits
  readonly #checkers = new Set<Checker>()
  readonly #queues = new Map<string, PendingCheck[]>()
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
      this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_INTERVAL_MS).unref()
      this.#feed()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    clearInterval(this.#sweeper)
    for (const queue of this.#queues.values()) for (const { resolve } of queue) resolve({ busy: true })
    this.#queues.clear()
    const checkers = [...this.#checkers]
    const lostCheckers = checkers
      .map(({ child }) => child)
      .filter(
        ({ pid, exitCode, signalCode }) => pid !== undefined && exitCode === null && signalCode === null,
      )
      .map((child) => once(child, 'exit'))
    for (const checker of checkers) this.#end(checker, { busy: true })
    await Promise.all(lostCheckers)
  }

  #feed(): void {
    for (let owner = this.#nextOwner(); owner !== undefined; owner = this.#nextOwner()) {
      const checker = this.#freeChecker()
      if (!checker?.isReady) return
      const next = this.#take(owner)
      if (next) this.#start(checker, next)
    }
  }

  /** Returns the next owner: the one that has waited longest. */
  #nextOwner(): string | undefined {
    const now = performance.now()
    const isSlow = (owner: string): boolean => (this.#slowUntil.get(owner) ?? 0) > now
    const takesSlow = now >= this.#slowAgainAt && ![...this.#atWork].some(isSlow)
    for (const owner of this.#queues.keys()) {
      if (!this.#atWork.has(owner) && (takesSlow || !isSlow(owner))) return owner
    }
    return undefined
  }

  #take(owner: string): PendingCheck | undefined {
    const queue = this.#queues.get(owner)
    const next = queue?.shift()
    // An owner with further checks goes to the end of the queue.
    this.#queues.delete(owner)
    if (queue && queue.length > 0) this.#queues.set(owner, queue)
    return next
  }

  #start(checker: Checker, next: PendingCheck): void {
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
    // The child's listener handles its exit.
    checker.child.send(order, () => undefined)
    // The child stops a check itself, unless it is busy collecting garbage.
    checker.deadline = setTimeout(() => this.#end(checker, { stopped: true }), deadlineMs + SWEEP_INTERVAL_MS)
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
      // The child needs nothing else from this environment, and must not see its secrets.
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
      // The child has exited in the meantime; its listener handles that.
    }
  }

  #finish(checker: Checker, reply: CheckReply): void {
    // The aborted work may have left the child's compiler in an inconsistent state.
    if ('stopped' in reply) return this.#end(checker, reply)
    // The child caches only schemas that compiled.
    if (checker.current && !('faults' in reply)) checker.known.delete(checker.current.key)
    this.#settle(checker, reply)
  }

  /** Handles a child that exited by itself: out of memory, or unable to start. */
  #lost(checker: Checker, err: Error): void {
    // Don't keep restarting a child that cannot even start.
    if (!checker.isReady && this.#checkers.has(checker)) {
      const queues = [...this.#queues.values()]
      this.#queues.clear()
      for (const queue of queues) for (const { reject } of queue) reject(err)
    }
    this.#end(checker, { stopped: true })
  }

  /** Ends a child and its current check; the next check that needs a child starts another. */
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

  /** Fails checks that have waited too long, and unmarks owners that are no longer slow. */
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
