import { lookup } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'

export type Resolve = (hostname: string) => Promise<string[]>

/** System resolver, so that hosts files and split DNS hold; both families, in the resolver's order. */
const resolveBySystem: Resolve = async (hostname) =>
  (await lookup(hostname, { all: true, order: 'verbatim' })).map(({ address }) => address)

const MAX_SLOW_NAMES = 10_000

export const LOOKUP_LIMITS = {
  /** How long a look-up may take. */
  resolveMs: 5_000,
  /** A name that took this long is slow, until it was quick again. */
  slowMs: 1_000,
  /** Slow names that are looked up at a time, of the 64 threads that there are (`UV_THREADPOOL_SIZE`). */
  slowAtOnce: 16,
}

/**
 * Looks names up, each time anew. The resolver has few threads and holds one for as long as a name's servers like: those who want
 * the same name at the same time share one question, and names known to be slow leave room for the others.
 */
export class NameLookup {
  readonly #resolve: Resolve
  readonly #limits: typeof LOOKUP_LIMITS
  readonly #questions = new Map<string, Promise<string[]>>()
  readonly #slow = new LRUCache<string, true>({ max: MAX_SLOW_NAMES })
  #slowQuestions = 0

  constructor(resolve: Resolve = resolveBySystem, limits: Partial<typeof LOOKUP_LIMITS> = {}) {
    this.#resolve = resolve
    this.#limits = { ...LOOKUP_LIMITS, ...limits }
  }

  /** Every address of a name. Throws when there is no answer in time, or no room for another slow name. */
  addressesOf(hostname: string): Promise<string[]> {
    const asked = this.#questions.get(hostname) ?? this.#ask(hostname)
    return within(asked, this.#limits.resolveMs)
  }

  async #ask(hostname: string): Promise<string[]> {
    const isSlow = this.#slow.has(hostname)
    if (isSlow && this.#slowQuestions >= this.#limits.slowAtOnce)
      throw new Error('too many names that are slow to resolve')
    if (isSlow) this.#slowQuestions++
    const began = performance.now()
    const asking = this.#resolve(hostname)
    this.#questions.set(hostname, asking)
    try {
      return await asking
    } finally {
      this.#questions.delete(hostname)
      if (isSlow) this.#slowQuestions--
      if (performance.now() - began < this.#limits.slowMs) this.#slow.delete(hostname)
      else this.#slow.set(hostname, true)
    }
  }
}

async function within<T>(work: Promise<T>, ms: number): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`not within ${ms} ms`)), ms)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
