import { endianness } from 'node:os'
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { outsideAccounts } from '../../db/account-share.ts'
import * as memoryVectorRepository from '../../db/repositories/memory/vectors.ts'
import type { Database } from '../../db/tables.ts'
import { VectorIndex } from '../../domain/memory/nearest.ts'
import type { Logger } from '../../platform/log.ts'
import type { SecretBox } from '../../platform/secret-box.ts'
import { emit } from '../events.ts'
import type { Embeddings } from './embeddings.ts'
import type { AccountMemoryView } from './memory-registry.ts'

const MAX_BYTES = 256 * 1024 * 1024
/** A larger index would crowd out the others, so a memory that needs one is read newest first instead. */
const MAX_INDEX_BYTES = 96 * 1024 * 1024
const TOO_LARGE_TTL_MS = 10 * 60_000
/** How many indexes load at once; in the meantime, other requests get the newest entries. */
const MAX_LOADS = 2
/** The number of vectors that one database query fetches. */
const PAGE = 2_000
/** How long a request waits for its query's vector; after that it gets the newest entries. */
const QUERY_TIMEOUT_MS = 500
/** An index is checked again after this time, because entries may have received vectors since. */
const RETRY_DELAY_MS = 1_000

interface CachedIndex {
  readonly index: VectorIndex
  /** The position of the last vector in the index. */
  stored: number
  readAt: number
}

export interface NearnessOptions {
  db: Kysely<Database>
  log: Logger
  secretBox: Pick<SecretBox, 'open'>
  embeddings: Pick<Embeddings, 'embed' | 'modelKey' | 'loadSoon'>
}

/** Finds the memory entries nearest to a text, using vectors that this gateway caches for a while. */
export class Nearness {
  readonly #options: NearnessOptions
  readonly #loaded = new LRUCache<string, CachedIndex>({ maxSize: MAX_BYTES })
  readonly #loading = new Map<string, Promise<VectorIndex>>()
  readonly #tooLarge = new LRUCache<string, true>({ max: 10_000, ttl: TOO_LARGE_TTL_MS })

  constructor(options: NearnessOptions) {
    this.#options = options
  }

  /**
   * Returns the ids of up to `count` entries, nearest to the text first; undefined if they can't be ranked, because
   * there is no embedding model, it isn't loaded, or it has embedded nothing yet. `versionOf` returns the version of
   * the snapshot to search; without it, all entries are searched.
   */
  async find(
    accountId: string,
    view: AccountMemoryView,
    text: string,
    count: number,
    versionOf: () => Promise<number | undefined> = () => Promise.resolve(undefined),
  ): Promise<string[] | undefined> {
    const { embeddings, log } = this.#options
    const modelKey = text === '' ? undefined : await embeddings.modelKey()
    if (modelKey === undefined) return undefined
    try {
      const index = await this.#indexOf(accountId, view, modelKey)
      if (index.size === 0) return undefined
      const [version, vectors] = await Promise.all([
        versionOf(),
        embeddings.embed(accountId, [text], AbortSignal.timeout(QUERY_TIMEOUT_MS)),
      ])
      const [query] = vectors ?? []
      if (!vectors) embeddings.loadSoon(accountId)
      const nearest = query && index.nearest(query, count, version)
      return nearest && nearest.length > 0 ? nearest : undefined
    } catch (err) {
      emit(log, 'memory.not_ranked', { err, account_id: accountId })
      return undefined
    }
  }

  /** Excludes deleted or superseded entries from later searches. */
  forget({ namespaceId }: AccountMemoryView, entryIds: readonly string[]): void {
    if (entryIds.length === 0) return
    for (const [key, { index }] of this.#loaded.entries())
      if (key.startsWith(namespaceId)) index.drop(entryIds)
  }

  async #indexOf(accountId: string, view: AccountMemoryView, modelKey: string): Promise<VectorIndex> {
    const key = `${view.namespaceId} ${modelKey}`
    const known = this.#loaded.get(key)
    if (known && performance.now() - known.readAt < RETRY_DELAY_MS) return known.index
    const loading = this.#loading.get(key)
    if (loading) return loading
    if (this.#tooLarge.has(key) || (!known && this.#loading.size >= MAX_LOADS)) return new VectorIndex()
    const read = outsideAccounts(() => this.#read(accountId, view, modelKey, known))
    this.#loading.set(key, read)
    return read.finally(() => this.#loading.delete(key))
  }

  async #read(
    accountId: string,
    { namespaceId }: AccountMemoryView,
    modelKey: string,
    known: CachedIndex | undefined,
  ): Promise<VectorIndex> {
    const loaded = known ?? { index: new VectorIndex(), stored: 0, readAt: 0 }
    const { index } = loaded
    const key = `${namespaceId} ${modelKey}`
    for (let isFull = true; isFull;) {
      const rows = await memoryVectorRepository.listVectors(this.#options.db, {
        accountId,
        namespaceId,
        modelKey,
        after: loaded.stored,
        limit: PAGE,
      })
      for (const { id, version, stored, sealed, vector } of rows) {
        const bytes = sealed ? this.#options.secretBox.open(sealed, vectorContext(id)) : vector
        if (bytes) index.add({ id, version }, fromBytes(bytes))
        loaded.stored = stored
      }
      if (index.bytes > MAX_INDEX_BYTES) {
        this.#tooLarge.set(key, true)
        this.#loaded.delete(key)
        return new VectorIndex()
      }
      isFull = rows.length === PAGE
    }
    loaded.readAt = performance.now()
    this.#loaded.set(key, loaded, { size: index.bytes + 1 })
    return index
  }
}

const IS_LITTLE = endianness() === 'LE'

/** The context that binds an encrypted vector to its entry. */
export const vectorContext = (entryId: string): string => `memory_embedding/${entryId}`

/** Encrypts a vector for storage. */
export function sealVector(box: Pick<SecretBox, 'seal'>, entryId: string, vector: Float32Array): Buffer {
  const bytes = Buffer.from(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength))
  return box.seal(IS_LITTLE ? bytes : bytes.swap32(), vectorContext(entryId))
}

function fromBytes(bytes: Buffer): Float32Array {
  const copy = new Uint8Array(bytes)
  if (!IS_LITTLE) Buffer.from(copy.buffer).swap32()
  return new Float32Array(copy.buffer)
}
