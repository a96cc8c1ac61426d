import { hash } from 'node:crypto'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { findApiKey } from '../db/repositories/api-keys.ts'
import type { Database } from '../db/tables.ts'
import type { CacheWatch } from '../db/cache-watch.ts'
import type { AccountCaller } from './http/caller.ts'

const LONGEST_KEY = 200

/** Live API keys by their hash. Forgotten as soon as any key changes; not believed while changes cannot be seen. */
export class KeyCache {
  readonly #db: Kysely<Database>
  readonly #watch: Pick<CacheWatch, 'on' | 'isFresh'>
  readonly #known = new LRUCache<string, AccountCaller>({ max: 50_000 })
  #epoch = 0

  constructor(db: Kysely<Database>, watch: Pick<CacheWatch, 'on' | 'isFresh'>) {
    this.#db = db
    this.#watch = watch
    watch.on('api_key', () => {
      this.#epoch += 1
      this.#known.clear()
    })
  }

  /** The caller behind a key; at once when it is known. */
  find(key: string): AccountCaller | undefined | Promise<AccountCaller | undefined> {
    if (key.length > LONGEST_KEY) return undefined
    const keyHash = hash('sha256', key, 'hex')
    const known = this.#known.get(keyHash)
    return known && this.#watch.isFresh() ? known : this.#look(keyHash)
  }

  async #look(keyHash: string): Promise<AccountCaller | undefined> {
    const epoch = this.#epoch
    const row = await findApiKey(this.#db, Buffer.from(keyHash, 'hex'))
    if (!row) return undefined
    const caller = Object.freeze({ accountId: row.account_id, keyId: row.id, role: row.role })
    // What was read before a change must not outlive it.
    if (epoch === this.#epoch) this.#known.set(keyHash, caller)
    return caller
  }
}
