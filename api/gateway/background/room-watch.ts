import { type Kysely, sql } from 'kysely'
import { isDatabaseFull } from '../../../db/errors.ts'
import type { Database } from '../../../db/tables.ts'
import { ApiError, STORAGE_FULL } from '../../../domain/errors.ts'
import type { ObjectStore, StoreRoom } from '../../../platform/object-store/store.ts'
import type { StorageHealth } from '../../../schemas/health.ts'

/** How long a refused write counts where the store does not report its room. */
const NOTED_MS = 30_000
/** More than a database that still has room takes from the free space of its files. */
const PROBE_BYTES = 1024 * 1024

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
    if (this.#isDatabaseFull) this.#isDatabaseFull = await this.#refusesWrites()
    const isObjectsFull = room
      ? room.freeBytes <= room.reserveBytes
      : performance.now() - this.#objectsFullAt < NOTED_MS
    return {
      room,
      objects: isObjectsFull ? 'full' : 'ok',
      database: this.#isDatabaseFull ? 'full' : 'ok',
    }
  }

  /** Writes a table of its own and drops it; any other failure than a full disk says nothing of its room. */
  async #refusesWrites(): Promise<boolean> {
    try {
      await this.#db.transaction().execute(async (trx) => {
        await sql`create temporary table room_probe (bytes bytea) on commit drop`.execute(trx)
        await sql`alter table room_probe alter column bytes set storage external`.execute(trx)
        await sql`insert into room_probe values (${Buffer.alloc(PROBE_BYTES)})`.execute(trx)
      })
      return false
    } catch (err) {
      return isDatabaseFull(err)
    }
  }
}
