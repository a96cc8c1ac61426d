import type { Kysely } from 'kysely'
import { isDatabaseFull } from '../../../db/errors.ts'
import { refusesWrites } from '../../../db/repositories/platform/free-space.ts'
import type { Database } from '../../../db/tables.ts'
import { ApiError, STORAGE_FULL } from '../../../domain/errors.ts'
import type { ObjectStore, StoreSpace } from '../../../platform/object-store/store.ts'
import type { StorageHealth } from '../../../schemas/health.ts'

/** How long a store that doesn't report its free space counts as full after it rejected a write. */
const FULL_MARK_TTL_MS = 30_000

/** The state of the two systems that store data, with the free space of the object store's disk if known. */
export interface Storage extends StorageHealth {
  room: StoreSpace | undefined
}

/**
 * Watches whether the object store and PostgreSQL have free space. We check a local object store's disk. PostgreSQL
 * doesn't report its free space, so after a rejected write it counts as full until a write of a megabyte succeeds.
 */
export class StorageMonitor {
  readonly #db: Kysely<Database>
  readonly #objects: Pick<ObjectStore, 'room'>
  #isDatabaseFull = false
  #objectsFullAt = Number.NEGATIVE_INFINITY

  constructor(db: Kysely<Database>, objects: Pick<ObjectStore, 'room'>) {
    this.#db = db
    this.#objects = objects
  }

  /** Records the error of any write. */
  note(err: unknown): void {
    const cause = err instanceof ApiError ? err.cause : err
    if (isDatabaseFull(cause)) this.#isDatabaseFull = true
    else if (err instanceof ApiError && err.details.reason === STORAGE_FULL)
      this.#objectsFullAt = performance.now()
  }

  async read(): Promise<Storage> {
    const room = await this.#objects.room().catch(() => undefined)
    if (this.#isDatabaseFull) this.#isDatabaseFull = await refusesWrites(this.#db)
    const isObjectsFull = room
      ? room.freeBytes <= room.reserveBytes
      : performance.now() - this.#objectsFullAt < FULL_MARK_TTL_MS
    return {
      room,
      objects: isObjectsFull ? 'full' : 'ok',
      database: this.#isDatabaseFull ? 'full' : 'ok',
    }
  }
}
