import { setMaxListeners } from 'node:events'

/**
 * Watches one subject from the moment the watch is created, so a caller misses no change between reading the subject
 * and waiting.
 */
export interface Watch extends Disposable {
  /** Resolves at the next change, or when the time is up, the signal aborts or the watches are closed. */
  next(timeoutMs: number, signal: AbortSignal): Promise<void>
}

/** This gateway's requests that are waiting for changes to a subject. Each re-reads its subject when woken. */
export class Watches {
  readonly #wakers = new Map<string, Set<() => void>>()
  readonly #closing = new AbortController()

  constructor() {
    // Each waiting request adds a listener.
    setMaxListeners(0, this.#closing.signal)
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  /** The number of open watches. */
  get size(): number {
    return [...this.#wakers.values()].reduce((sum, { size }) => sum + size, 0)
  }

  watch(id: string): Watch {
    let news = Promise.withResolvers<void>()
    const wake = () => news.resolve()
    const wakers = this.#wakers.get(id) ?? new Set()
    this.#wakers.set(id, wakers.add(wake))
    return {
      next: async (timeoutMs, signal) => {
        const timer = setTimeout(wake, timeoutMs)
        const ends = [signal, this.#closing.signal]
        for (const end of ends) end.addEventListener('abort', wake, { once: true })
        if (ends.some(({ aborted }) => aborted)) wake()
        await news.promise
        clearTimeout(timer)
        for (const end of ends) end.removeEventListener('abort', wake)
        news = Promise.withResolvers<void>()
      },
      [Symbol.dispose]: () => {
        wakers.delete(wake)
        if (wakers.size === 0) this.#wakers.delete(id)
      },
    }
  }

  wake(id: string): void {
    for (const wake of this.#wakers.get(id) ?? []) wake()
  }

  wakeAll(): void {
    for (const id of this.#wakers.keys()) this.wake(id)
  }

  close(): void {
    this.#closing.abort()
  }
}
