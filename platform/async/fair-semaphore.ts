export interface FairSemaphoreOptions {
  /** The maximum number of concurrent turns across all keys. */
  most: number
  /** The maximum number of concurrent turns per key. */
  mostPerKey: number
  /** The maximum number of waiting callers. */
  mostWaiting: number
}

/** The queue is full, or this caller lost its place to a key with fewer waiting callers. */
export class QueueFullError extends Error {
  override readonly name = 'QueueFullError'
}

interface Waiter {
  since: number
  begin: () => void
  leave: (reason: unknown) => void
}

interface KeyQueue {
  atWork: number
  waiting: Waiter[]
  servedAt: number
}

/**
 * Grants a bounded number of turns in this process. The next turn goes to the key with the fewest running turns, and
 * among equals to the one that was served longest ago, so that one key's queue does not delay another's.
 */
export class FairSemaphore {
  readonly #options: FairSemaphoreOptions
  readonly #lines = new Map<string, KeyQueue>()
  /** A counter that numbers arrivals and grants. */
  #clock = 0
  #atWork = 0
  #waiting = 0

  constructor(options: FairSemaphoreOptions) {
    this.#options = options
  }

  /** Waits for a turn and holds it until disposed. Throws `QueueFullError`, or the signal's reason. */
  async take(key: string, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted()
    const line = this.#lines.get(key) ?? newLine()
    this.#lines.set(key, line)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter: Waiter = { since: ++this.#clock, begin: resolve, leave: reject }
    line.waiting.push(waiter)
    this.#waiting += 1
    this.#serve()
    if (this.#waiting > this.#options.mostWaiting) this.#sendAwayOne()
    const leave = () => this.#leave(key, waiter, signal.reason)
    signal.addEventListener('abort', leave, { once: true })
    try {
      await promise
    } finally {
      signal.removeEventListener('abort', leave)
    }
    return this.#held(key, line)
  }

  /**
   * Takes a turn if one is free now. Callers then don't need a signal, which only matters for the wait: one from
   * `AbortSignal.timeout` lives until it times out.
   */
  takeFree(key: string): Disposable | undefined {
    const { most, mostPerKey } = this.#options
    const line = this.#lines.get(key) ?? newLine()
    // While a turn is free for a key, none of its callers wait, so this does not jump the queue.
    if (this.#atWork >= most || line.atWork >= mostPerKey) return undefined
    this.#lines.set(key, line)
    this.#begin(line)
    return this.#held(key, line)
  }

  #held(key: string, line: KeyQueue): Disposable {
    let isHeld = true
    return {
      [Symbol.dispose]: () => {
        if (isHeld) this.#end(key, line)
        isHeld = false
      },
    }
  }

  #begin(line: KeyQueue): void {
    this.#atWork += 1
    line.atWork += 1
    line.servedAt = ++this.#clock
  }

  #serve(): void {
    while (this.#atWork < this.#options.most) {
      const line = this.#next()
      const first = line?.waiting.shift()
      if (!line || !first) return
      this.#waiting -= 1
      this.#begin(line)
      first.begin()
    }
  }

  #next(): KeyQueue | undefined {
    const able = [...this.#lines.values()].filter(
      ({ atWork, waiting }) => waiting.length > 0 && atWork < this.#options.mostPerKey,
    )
    return able.toSorted((a, b) => a.atWork - b.atWork || idleSince(a) - idleSince(b))[0]
  }

  /** Rejects the latest arrival of the key with the longest queue; among equals, the latest of all. */
  #sendAwayOne(): void {
    const [longest] = [...this.#lines].toSorted(
      ([, a], [, b]) => b.waiting.length - a.waiting.length || lastSince(b) - lastSince(a),
    )
    const last = longest?.[1].waiting.at(-1)
    if (longest && last)
      this.#leave(longest[0], last, new QueueFullError('too many callers are already waiting'))
  }

  #leave(key: string, who: Waiter, reason: unknown): void {
    const line = this.#lines.get(key)
    const at = line?.waiting.indexOf(who) ?? -1
    if (!line || at === -1) return
    line.waiting.splice(at, 1)
    this.#waiting -= 1
    this.#forget(key, line)
    who.leave(reason)
  }

  #end(key: string, line: KeyQueue): void {
    this.#atWork -= 1
    line.atWork -= 1
    this.#forget(key, line)
    this.#serve()
  }

  #forget(key: string, { atWork, waiting }: KeyQueue): void {
    if (atWork === 0 && waiting.length === 0) this.#lines.delete(key)
  }
}

const newLine = (): KeyQueue => ({ atWork: 0, waiting: [], servedAt: 0 })

const idleSince = ({ servedAt, waiting }: KeyQueue): number => Math.max(servedAt, waiting[0]?.since ?? 0)

const lastSince = ({ waiting }: KeyQueue): number => waiting.at(-1)?.since ?? 0
