import { EventEmitter } from 'node:events'
import type { Kysely } from 'kysely'
import { BackgroundLoop } from '../platform/async/background-loop.ts'
import type { Logger } from '../platform/log.ts'
import { emit } from './events.ts'
import { Listener } from './listener.ts'
import { CACHE_CHANNEL } from './repositories/platform/cache-versions.ts'
import type { Database } from './tables.ts'
import type { CacheVersionTable } from './tables/accounts.ts'

export type CacheName = CacheVersionTable['name']
type OnChange = () => void

const POLL_INTERVAL_MS = 800
/** Cached data may be outdated when the versions have not been read for this long. */
const STALE_TIMEOUT_MS = 2_000

/**
 * Notifies caches of changes to their tables: immediately by NOTIFY, and also by polling the version rows every 800 ms,
 * because a half-open connection receives no NOTIFY.
 */
export class CacheWatch implements AsyncDisposable {
  readonly #db: Kysely<Database>
  readonly #events = new EventEmitter()
  readonly #versions = new Map<string, number>()
  readonly #listener: Listener
  #seenAt = Number.NEGATIVE_INFINITY
  readonly #loop: BackgroundLoop

  constructor(db: Kysely<Database>, url: string, log: Logger) {
    this.#db = db
    this.#loop = new BackgroundLoop(() => this.#poll(), {
      everyMs: POLL_INTERVAL_MS,
      onError: (err) => emit(log, 'cache.poll_failed', { err }),
    })
    this.#listener = new Listener(url, {
      channel: CACHE_CHANNEL,
      onNotify: (name) => this.#events.emit(name),
      onGap: () => void this.#loop.run(),
      onError: (err) => emit(log, 'cache.notify_lost', { err }),
    })
  }

  /**
   * Registers a callback for possible changes of a cached table. It is also called after this process was unable to
   * read the versions for a while.
   */
  on(name: CacheName, listener: OnChange): void {
    this.#events.on(name, listener)
  }

  /** Returns whether the versions were read recently enough to trust a cache. */
  isFresh(now = performance.now()): boolean {
    return now - this.#seenAt < STALE_TIMEOUT_MS
  }

  async start(): Promise<void> {
    await this.#poll()
    await this.#listener.start()
    this.#loop.start()
  }

  async #poll(): Promise<void> {
    const startedAt = performance.now()
    const rows = await this.#db.selectFrom('cache_version').selectAll().execute()
    this.#seenAt = startedAt
    for (const { name, version } of rows) {
      if (this.#versions.get(name) !== version) this.#events.emit(name)
      this.#versions.set(name, version)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
    await this.#listener[Symbol.asyncDispose]()
  }
}
