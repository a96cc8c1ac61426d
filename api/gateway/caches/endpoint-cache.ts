import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { CacheWatch } from '../../../db/cache-watch.ts'
import * as callableEndpointRepository from '../../../db/repositories/endpoints/callable.ts'
import type { CallableEndpointRow } from '../../../db/repositories/endpoints/callable.ts'
import type { Database } from '../../../db/tables.ts'

/**
 * The size limit of the cache. A row counts as half a kilobyte plus its schema, which can reach a megabyte for a wide
 * table.
 */
const MAX_BYTES = 16 * 1024 * 1024
const ROW_BYTES = 512

/**
 * Caches the endpoint rows that inference needs. Any change to an endpoint drops all of them, and the cache is bypassed
 * while we can't see changes.
 */
export class EndpointCache {
  readonly #db: Kysely<Database>
  readonly #watch: Pick<CacheWatch, 'on' | 'isFresh'>
  readonly #known = new LRUCache<string, CallableEndpointRow>({ maxSize: MAX_BYTES })
  #epoch = 0

  constructor(db: Kysely<Database>, watch: Pick<CacheWatch, 'on' | 'isFresh'>) {
    this.#db = db
    this.#watch = watch
    watch.on('endpoint', () => {
      this.#epoch += 1
      this.#known.clear()
    })
  }

  /** The estimated size of the cached rows in bytes. */
  get bytes(): number {
    return this.#known.calculatedSize
  }

  /** Returns the endpoint with this id or name, synchronously if cached. */
  find(idOrName: string): CallableEndpointRow | undefined | Promise<CallableEndpointRow | undefined> {
    const name = idOrName.toLowerCase()
    const known = this.#known.get(name)
    return known && this.#watch.isFresh() ? known : this.#fetch(name)
  }

  async #fetch(idOrName: string): Promise<CallableEndpointRow | undefined> {
    const epoch = this.#epoch
    const row = await callableEndpointRepository.findCallableEndpoint(this.#db, idOrName)
    // A row read before a change must not be cached after it.
    if (row && epoch === this.#epoch) this.#known.set(idOrName, row, { size: ROW_BYTES + textBytes(row) })
    return row
  }
}

const textBytes = ({ input_schema }: CallableEndpointRow): number => JSON.stringify(input_schema).length
