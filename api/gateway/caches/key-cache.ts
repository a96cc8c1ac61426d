import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { outsideAccounts } from '../../../db/account-share.ts'
import type { CacheWatch } from '../../../db/cache-watch.ts'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import type { Database } from '../../../db/tables.ts'
import { ToolFilter } from '../../../domain/tools/filter.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import type { AccountCaller } from '../../http/caller.ts'
import type { KeyMeters } from './key-meters.ts'

const MAX_KEY = 200
const MAX_UNKNOWN = 10_000
/** Unknown keys are safe to cache: keys are random bits, so no request can have used one before its creation. */
const UNKNOWN_KEY_TTL_MS = 10_000
/** The pause between two queries. Each query looks up all keys requested so far. */
const QUERY_DELAY_MS = 5
const MAX_AT_ONCE = 500
/** How often we record which keys were used. */
const USE_FLUSH_INTERVAL_MS = 60_000

interface CachedKey {
  readonly caller: AccountCaller
  isUsed: boolean
}

interface Deps {
  watch: Pick<CacheWatch, 'on' | 'isFresh'>
  meters: Pick<KeyMeters, 'load'>
  log: Logger
}

/** Caches live API keys by hash. Any change to a key drops all of them; bypassed while we can't see changes. */
export class KeyCache implements AsyncDisposable {
  readonly #db: Kysely<Database>
  readonly #watch: Pick<CacheWatch, 'on' | 'isFresh'>
  readonly #known = new LRUCache<string, CachedKey>({ max: 50_000, dispose: (known) => this.#noteUse(known) })
  readonly #unknown = new LRUCache<string, true>({ max: MAX_UNKNOWN, ttl: UNKNOWN_KEY_TTL_MS })
  readonly #wanted = new Map<string, PromiseWithResolvers<AccountCaller | undefined>>()
  readonly #meters: Pick<KeyMeters, 'load'>
  /** Used keys that are no longer cached. */
  readonly #used = new Set<string>()
  readonly #loop: BackgroundLoop
  #isFetching = false
  #epoch = 0

  constructor(db: Kysely<Database>, { watch, meters, log }: Deps) {
    this.#db = db
    this.#watch = watch
    this.#meters = meters
    this.#loop = new BackgroundLoop(() => this.noteUses(), {
      everyMs: USE_FLUSH_INTERVAL_MS,
      onError: (err) => emit(log, 'keys.use_unrecorded', { err }),
    }).start()
    watch.on('api_key', () => {
      this.#epoch += 1
      this.#known.clear()
    })
  }

  /** Returns a key's caller if cached; otherwise a function that queries the database. */
  find(key: string): AccountCaller | undefined | (() => Promise<AccountCaller | undefined>) {
    if (key.length > MAX_KEY) return undefined
    const keyHash = apiKeyRepository.hexHashOfApiKey(key)
    const known = this.#known.get(keyHash)
    if (known && this.#watch.isFresh()) {
      known.isUsed = true
      return known.caller
    }
    return this.#unknown.has(keyHash) ? undefined : () => this.#fetch(keyHash)
  }

  /** All requests with the same unknown key share a single query. */
  #fetch(keyHash: string): Promise<AccountCaller | undefined> {
    const pending = this.#wanted.get(keyHash)
    if (pending) return pending.promise
    const wanted = Promise.withResolvers<AccountCaller | undefined>()
    this.#wanted.set(keyHash, wanted)
    if (!this.#isFetching) void outsideAccounts(() => this.#fetchBatches())
    return wanted.promise
  }

  async #fetchBatches(): Promise<void> {
    this.#isFetching = true
    while (this.#wanted.size > 0) {
      const batch = [...this.#wanted].slice(0, MAX_AT_ONCE)
      for (const [keyHash] of batch) this.#wanted.delete(keyHash)
      const hashes = batch.map(([keyHash]) => keyHash)
      await this.#read(hashes).then(
        (callers) => {
          for (const [keyHash, { resolve }] of batch) resolve(callers.get(keyHash))
        },
        (err: unknown) => {
          for (const [, { reject }] of batch) reject(err as Error)
        },
      )
      if (this.#wanted.size > 0) await sleep(QUERY_DELAY_MS)
    }
    this.#isFetching = false
  }

  async #read(hashes: readonly string[]): Promise<Map<string, AccountCaller>> {
    const epoch = this.#epoch
    const rows = await apiKeyRepository.findApiKeys(
      this.#db,
      hashes.map((keyHash) => Buffer.from(keyHash, 'hex')),
    )
    const found = new Map<string, AccountCaller>()
    await this.#meters.load(rows.filter(({ limits }) => limits !== null).map(({ id }) => id))
    for (const { key_hash, account_id, id, role, tools, limits, expires_at } of rows) {
      const caller = {
        accountId: account_id,
        keyId: id,
        role,
        ...(tools && { tools: ToolFilter.ofKey(tools) }),
        ...(limits && { limits: Object.freeze(limits) }),
        ...(expires_at && { expiresAt: expires_at.getTime() }),
      }
      found.set(key_hash.toString('hex'), Object.freeze(caller))
    }
    // A key read before a change must not be cached after it.
    if (epoch === this.#epoch)
      for (const [keyHash, caller] of found) this.#known.set(keyHash, { caller, isUsed: true })
    for (const keyHash of hashes) if (!found.has(keyHash)) this.#unknown.set(keyHash, true)
    return found
  }

  /** Records which keys were used since the last call. */
  async noteUses(): Promise<void> {
    for (const known of this.#known.values()) this.#noteUse(known)
    const ids = [...this.#used]
    this.#used.clear()
    try {
      await apiKeyRepository.noteUses(this.#db, ids)
    } catch (err) {
      for (const id of ids) this.#used.add(id)
      throw err
    }
  }

  #noteUse(known: CachedKey): void {
    if (known.isUsed) this.#used.add(known.caller.keyId)
    known.isUsed = false
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
    await this.noteUses().catch(() => {})
  }
}
