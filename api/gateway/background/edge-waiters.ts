import { setMaxListeners } from 'node:events'
import { Listener } from '../../../db/listener.ts'
import { EDGE_CHANNEL } from '../../../db/repositories/cohorts/edges.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import type { NodeLinks } from '../links/node-links.ts'

/** Watches one edge from its creation on, so that no change between a read and the wait is missed. */
export interface EdgeWatch extends Disposable {
  /** Resolves at the next change, when the time is up, the signal aborts or the gateway stops. */
  next(timeoutMs: number, signal: AbortSignal): Promise<void>
}

/**
 * Wakes requests that wait for news of an edge of a cohort, and tells nodes at once that their payload of a closed one is
 * not needed any more. A NOTIFY may be lost, so requests read again from time to time, and nodes keep asking.
 */
export class EdgeWaiters implements AsyncDisposable {
  readonly #watches = new Map<string, Set<() => void>>()
  readonly #closing = new AbortController()
  readonly #listener: Listener

  constructor(url: string, log: Logger, links: Pick<NodeLinks, 'releaseEdge'>) {
    this.#listener = new Listener(url, {
      channel: EDGE_CHANNEL,
      onNotify: (text) => {
        const [edgeId = '', attempt, nodeId] = text.split(' ')
        if (nodeId === undefined) this.#wake(edgeId)
        else links.releaseEdge(nodeId, { edge_id: edgeId, attempt: Number(attempt) })
      },
      onGap: () => {
        for (const edgeId of this.#watches.keys()) this.#wake(edgeId)
      },
      onError: (err) => emit(log, 'cohort.edge_notify_lost', { err }),
    })
    // Each waiting request adds a listener.
    setMaxListeners(0, this.#closing.signal)
  }

  /** True once the gateway stops, after which nothing is waited for. */
  get isClosing(): boolean {
    return this.#closing.signal.aborted
  }

  start(): Promise<void> {
    return this.#listener.start()
  }

  watch(edgeId: string): EdgeWatch {
    let news = Promise.withResolvers<void>()
    const wake = () => news.resolve()
    const watches = this.#watches.get(edgeId) ?? new Set()
    this.#watches.set(edgeId, watches.add(wake))
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
        watches.delete(wake)
        if (watches.size === 0) this.#watches.delete(edgeId)
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#listener[Symbol.asyncDispose]()
  }

  #wake(edgeId: string): void {
    for (const wake of this.#watches.get(edgeId) ?? []) wake()
  }
}
