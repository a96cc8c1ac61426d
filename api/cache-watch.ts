import { EventEmitter } from 'node:events'
import type { Kysely } from 'kysely'
import pg from 'pg'
import { CACHE_CHANNEL } from '../db/repositories/cache-versions.ts'
import type { Database } from '../db/tables.ts'
import type { CacheVersionTable } from '../db/tables/accounts.ts'
import type { Logger } from '../platform/log.ts'

export type CacheName = CacheVersionTable['name']
type Listener = () => void

const POLL_MS = 500
const CONNECT_MS = 5_000
/** Without a look at the versions for this long, what is cached may be out of date. */
const STALE_MS = 2_000

/**
 * Tells caches when their tables have changed: at once by NOTIFY, and by a poll of the version rows every 500 ms, for
 * a half-open connection hears no NOTIFY (design section 5).
 */
export class CacheWatch implements AsyncDisposable {
  readonly #db: Kysely<Database>
  readonly #url: string
  readonly #log: Logger
  readonly #events = new EventEmitter()
  readonly #versions = new Map<string, number>()
  #seenAt = 0
  #timer: NodeJS.Timeout | undefined
  #listener: pg.Client | undefined
  #isClosed = false

  constructor(db: Kysely<Database>, url: string, log: Logger) {
    this.#db = db
    this.#url = url
    this.#log = log
  }

  /** Calls back whenever the cached table may have changed; also when this process lost sight of it for a while. */
  on(name: CacheName, listener: Listener): void {
    this.#events.on(name, listener)
  }

  /** Whether the versions were seen lately enough to believe a cache. */
  isFresh(now = Date.now()): boolean {
    return now - this.#seenAt < STALE_MS
  }

  async start(): Promise<void> {
    await this.#poll()
    await this.#listen()
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      void this.#tick().finally(() => this.#schedule())
    }, POLL_MS)
  }

  async #tick(): Promise<void> {
    try {
      await this.#poll()
      if (!this.#listener) await this.#listen()
    } catch (err) {
      this.#log.warn({ err }, 'cannot see whether caches are up to date')
    }
  }

  async #poll(): Promise<void> {
    const startedAt = Date.now()
    const rows = await this.#db.selectFrom('cache_version').selectAll().execute()
    this.#seenAt = startedAt
    for (const { name, version } of rows) {
      if (this.#versions.get(name) !== version) this.#events.emit(name)
      this.#versions.set(name, version)
    }
  }

  async #listen(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_MS,
    })
    const drop = (): void => {
      if (this.#listener === client) this.#listener = undefined
    }
    client.on('error', drop).on('end', drop)
    client.on('notification', ({ payload }) => this.#events.emit(payload ?? ''))
    try {
      await client.connect()
      await client.query(`listen ${CACHE_CHANNEL}`)
    } catch (err) {
      await client.end().catch(() => {})
      throw err
    }
    if (this.#isClosed) return client.end()
    this.#listener = client
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#listener?.end()
  }
}
