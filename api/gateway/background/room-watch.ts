import type { Kysely } from 'kysely'
import { isDatabaseFull } from '../../../db/errors.ts'
import { refusesWrites } from '../../../db/repositories/platform/room.ts'
import type { Database } from '../../../db/tables.ts'
import { ApiError, STORAGE_FULL } from '../../../domain/errors.ts'
import type { ObjectStore, StoreRoom } from '../../../platform/object-store/store.ts'
import type { StorageHealth } from '../../../schemas/health.ts'

/** How long a refused write counts where the store does not report its room. */
const NOTED_MS = 30_000

/** The state of the two systems that store data, with the room of the object store's disk if it is known. */
export interface Storage extends StorageHealth {
  room: StoreRoom | undefined
}

/**
 * Watches whether the object store and PostgreSQL have room. The disk of a local object store is read. PostgreSQL does not
 * report its own, so a write that it refused counts until a write of a megabyte succeeds again.
 */
export class RoomWatch {
  readonly #db: Kysely<Database>
  readonly #objects: Pick<ObjectStore, 'room'>
  #isDatabaseFull = false
  #objectsFullAt = Number.NEGATIVE_INFINITY

  constructor(db: Kysely<Database>, objects: Pick<ObjectStore, 'room'>) {
    this.#db = db
    this.#objects = objects
  }

  /** Notes the error of a write, of any kind. */
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
      : performance.now() - this.#objectsFullAt < NOTED_MS
    return {
      room,
      objects: isObjectsFull ? 'full' : 'ok',
      database: this.#isDatabaseFull ? 'full' : 'ok',
    }
  }
}
