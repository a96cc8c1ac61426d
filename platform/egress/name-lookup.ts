import { lookup } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import pTimeout from 'p-timeout'

export type HostResolver = (hostname: string) => Promise<string[]>

/**
 * Uses the system resolver, so that hosts files and split DNS apply. Returns both families, in the resolver's order.
 */
const resolveBySystem: HostResolver = async (hostname) =>
  (await lookup(hostname, { all: true, order: 'verbatim' })).map(({ address }) => address)

const MAX_NAMES = 10_000

export const LOOKUP_LIMITS = {
  /** The time limit for a look-up. */
  resolveMs: 5_000,
  /** A name whose look-up takes longer than this counts as slow. */
  slowMs: 1_000,
  /**
   * The limit for concurrent look-ups of names that are not known to be quick; there are 64 threads
   * (`UV_THREADPOOL_SIZE`).
   */
  slowAtOnce: 16,
  /** Concurrent look-ups per owner; at most half of them are for names that are not known to be quick. */
  ownerAtOnce: 8,
  /** The number of consecutive quick look-ups after which a slow name counts as quick again. */
  quickAgainAfter: 4,
}

/**
 * Resolves names without caching. The resolver has few threads, and a slow name server can occupy one for a long time.
 * So concurrent callers of a name share a look-up, and names that are not known to be quick leave threads for others.
 * Each owner is limited too, because all of its names may become slow at once.
 */
export class NameLookup {
  readonly #resolve: HostResolver
  readonly #limits: typeof LOOKUP_LIMITS
  readonly #questions = new Map<string, Promise<string[]>>()
  /** The number of consecutive quick look-ups that a name still needs to count as quick. */
  readonly #toProve = new LRUCache<string, number>({ max: MAX_NAMES })
  readonly #asking = new Map<string, { all: number; unproven: number }>()
  #unproven = 0
  #waiting: (() => void)[] = []

  constructor(resolve: HostResolver = resolveBySystem, limits: Partial<typeof LOOKUP_LIMITS> = {}) {
    this.#resolve = resolve
    this.#limits = { ...LOOKUP_LIMITS, ...limits }
  }

  /** Returns every address of a name. Throws on a timeout, which includes the wait for a thread. */
  addressesOf(hostname: string, owner: string): Promise<string[]> {
    const asked = this.#questions.get(hostname) ?? this.#ask(hostname, owner)
    const { resolveMs: milliseconds } = this.#limits
    return pTimeout(asked, { milliseconds, message: `not within ${milliseconds} ms` })
  }

  async #ask(hostname: string, owner: string): Promise<string[]> {
    const deadline = performance.now() + this.#limits.resolveMs
    while (!this.#hasRoom(hostname, owner)) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      if (performance.now() >= deadline) throw new Error('too many names are being resolved')
      const asked = this.#questions.get(hostname)
      if (asked) return asked
    }
    // A name that was never looked up is not known to be quick.
    const toProve = this.#toProve.get(hostname) ?? 1
    const isUnproven = toProve > 0
    const own = this.#asking.get(owner) ?? { all: 0, unproven: 0 }
    this.#asking.set(owner, own)
    this.#take(own, isUnproven, 1)
    const began = performance.now()
    const asking = this.#resolve(hostname)
    this.#questions.set(hostname, asking)
    try {
      return await asking
    } finally {
      this.#questions.delete(hostname)
      this.#take(own, isUnproven, -1)
      if (own.all === 0) this.#asking.delete(owner)
      for (const wake of this.#waiting.splice(0)) wake()
      const isQuick = performance.now() - began < this.#limits.slowMs
      this.#toProve.set(hostname, isQuick ? Math.max(0, toProve - 1) : this.#limits.quickAgainAfter)
    }
  }

  #hasRoom(hostname: string, owner: string): boolean {
    const { ownerAtOnce, slowAtOnce } = this.#limits
    const { all, unproven } = this.#asking.get(owner) ?? { all: 0, unproven: 0 }
    if (all >= ownerAtOnce) return false
    if (this.#toProve.get(hostname) === 0) return true
    return unproven < ownerAtOnce / 2 && this.#unproven < slowAtOnce
  }

  #take(own: { all: number; unproven: number }, isUnproven: boolean, count: number): void {
    own.all += count
    if (!isUnproven) return
    own.unproven += count
    this.#unproven += count
  }
}
