import type { IncomingMessage } from 'node:http'
import type { Kysely } from 'kysely'
import * as storageRepository from '../../db/repositories/platform/storage.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError } from '../../domain/errors.ts'
import type { Services } from '../services.ts'
import { assertFits, defaultQuotaBytes, quotaExceeded } from './storage-quota.ts'

/** Several renewals may fail before a hold expires. */
const RENEWAL_INTERVAL_MS = 30_000

interface HoldRequest {
  accountId: string
  /** The upload whose signed URL receives the bytes; the hold replaces its declared size. */
  uploadId?: string
  /** The size of the body; undefined for a body without Content-Length. */
  bytes: number | undefined
  /** The maximum file size that the route accepts. */
  maxBytes: number
}

/** Returns the declared size of a request's body; undefined for a chunked body. */
export const contentLengthOf = ({ headers }: IncomingMessage): number | undefined =>
  headers['content-length'] === undefined ? undefined : Number(headers['content-length'])

/** Bytes of an account's storage quota that a transfer holds until its file has a row, or until it fails. */
export class StorageHold implements AsyncDisposable {
  /** The maximum number of bytes that the transfer may store. */
  readonly maxBytes: number
  readonly #id: string
  readonly #db: Kysely<Database>
  readonly #renewal: NodeJS.Timeout
  /** The error for a body of unknown size that exceeds what the account had left. */
  readonly #overrun: ApiError | undefined

  private constructor(
    db: Kysely<Database>,
    { id, maxBytes, overrun }: { id: string; maxBytes: number; overrun: ApiError | undefined },
  ) {
    this.#db = db
    this.#id = id
    this.maxBytes = maxBytes
    this.#overrun = overrun
    // A failed renewal is retried while the hold still lasts.
    this.#renewal = setInterval(
      () => void storageRepository.renewHold(db, id).catch(() => undefined),
      RENEWAL_INTERVAL_MS,
    ).unref()
  }

  /**
   * Holds the bytes of a transfer before any of them is stored; throws as `assertFits` does. A body of unknown size
   * holds everything that the account has left, up to `maxBytes`.
   */
  static async take(
    { db, config }: Pick<Services, 'db' | 'config'>,
    { accountId, uploadId, bytes, maxBytes }: HoldRequest,
  ): Promise<StorageHold> {
    const held = await db.transaction().execute(async (trx) => {
      const use = await storageRepository.lockStorage(trx, accountId, defaultQuotaBytes(config))
      const reservedBytes = uploadId ? await storageRepository.reservedBytes(trx, uploadId) : 0
      const freeBytes =
        use.limitBytes === null
          ? undefined
          : Math.max(reservedBytes, use.limitBytes - use.storedBytes - use.underWayBytes + reservedBytes)
      if (bytes !== undefined) assertFits(use, { bytes, reservedBytes })
      else if (freeBytes !== undefined && freeBytes <= 0) throw quotaExceeded(use)
      const most = Math.min(maxBytes, bytes ?? freeBytes ?? maxBytes)
      // Without a limit, there is nothing to hold for a body of unknown size.
      const heldBytes = bytes ?? (freeBytes === undefined ? 0 : most)
      const id = await storageRepository.insertHold(trx, { accountId, uploadId, bytes: heldBytes })
      return {
        id,
        maxBytes: most,
        overrun: most < maxBytes && bytes === undefined ? quotaExceeded(use) : undefined,
      }
    })
    return new StorageHold(db, held)
  }

  /** Stores the file with `store`; throws the quota's error if a body of unknown size exceeds the hold. */
  async store<T>(store: (maxBytes: number) => Promise<T>): Promise<T> {
    try {
      return await store(this.maxBytes)
    } catch (err) {
      const isOverrun = this.#overrun && err instanceof ApiError && err.code === 'payload_too_large'
      throw isOverrun ? this.#overrun : err
    }
  }

  /** Releases the bytes in the transaction that writes the stored file's row. */
  async release(db: Kysely<Database>): Promise<void> {
    await storageRepository.deleteHold(db, this.#id)
  }

  /** Stops the renewals and releases the bytes of a failed transfer. If the hold can't be deleted, it expires later. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#renewal)
    await storageRepository.deleteHold(this.#db, this.#id).catch(() => undefined)
  }
}
