import { statfsSync } from 'node:fs'
import type { Transaction } from 'kysely'
import * as storageRepository from '../../db/repositories/platform/storage.ts'
import type { StorageUse } from '../../db/repositories/platform/storage.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError, temporaryError } from '../../domain/errors.ts'
import type { Config } from '../../platform/config.ts'

const GB = 1e9
const DEFAULT_QUOTA_BYTES = 100 * GB
/** Prevents one account from filling a small disk. */
const MAX_DISK_SHARE = 1 / 2
const RETRY_AFTER_S = 60
/** Re-read the size after this time, because an operator may enlarge a disk. */
const SIZE_TTL_MS = 10 * 60_000

type QuotaSettings = Pick<Config, 'HEARTH_ACCOUNT_STORAGE_GB' | 'HEARTH_OBJECT_DIR' | 'S3_BUCKET'>

/**
 * Returns the default account limit in bytes; 0 means no limit. Without the setting, it depends on the disk of a local
 * object store. A limit that an operator sets applies on any disk.
 */
export function defaultQuotaBytes(config: QuotaSettings): number {
  const { HEARTH_ACCOUNT_STORAGE_GB: gb, HEARTH_OBJECT_DIR, S3_BUCKET } = config
  if (gb !== undefined) return gb * GB
  if (S3_BUCKET) return DEFAULT_QUOTA_BYTES
  return Math.min(DEFAULT_QUOTA_BYTES, Math.floor(diskBytes(HEARTH_OBJECT_DIR) * MAX_DISK_SHARE))
}

/**
 * Disk sizes by folder. Cached, because a network file system may take seconds to report and would block this thread.
 */
const diskSizes = new Map<string, { bytes: number; until: number }>()

/**
 * Returns the size of a folder's disk in bytes; Infinity if the folder is missing or the file system reports no size.
 */
function diskBytes(folder: string): number {
  const known = diskSizes.get(folder)
  if (known && performance.now() < known.until) return known.bytes
  try {
    const { blocks, bsize } = statfsSync(folder)
    const bytes = blocks * bsize || Number.POSITIVE_INFINITY
    if (Number.isFinite(bytes)) diskSizes.set(folder, { bytes, until: performance.now() + SIZE_TTL_MS })
    return bytes
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

/** The bytes that an upload adds, and how many of them already count as used. */
export interface NewBytes {
  bytes: number
  reservedBytes?: number
}

/**
 * Throws `payload_too_large` if the bytes alone exceed what the account may store, and `storage_quota_exceeded` if they
 * don't fit now. Bytes reserved for the upload always fit, even if the quota was lowered in the meantime.
 */
export function assertFits(use: StorageUse, { bytes, reservedBytes = 0 }: NewBytes): void {
  const { limitBytes } = use
  if (limitBytes === null || bytes <= reservedBytes) return
  if (bytes > limitBytes) {
    throw new ApiError(
      'payload_too_large',
      `this upload is ${text(bytes)}, and the account may store ${text(limitBytes)} in total; send less, or ask an operator to raise the storage quota`,
      { details: detailsOf(use, bytes) },
    )
  }
  if (use.storedBytes + use.underWayBytes - reservedBytes + bytes > limitBytes)
    throw quotaExceeded(use, bytes)
}

/** Creates the 429 for bytes that don't fit now; `bytes` is undefined for an upload of unknown size. */
export function quotaExceeded(use: StorageUse, bytes?: number): ApiError {
  const { limitBytes, storedBytes, underWayBytes } = use
  const upload = bytes === undefined ? 'this upload' : `this upload of ${text(bytes)}`
  return temporaryError(
    'storage_quota_exceeded',
    `the account may store ${text(limitBytes ?? 0)}: ${text(storedBytes)} are stored and ${text(underWayBytes)} under way, so ${upload} does not fit; ` +
      'delete datasets, training runs or uploads that are not committed, or ask an operator to raise the storage quota',
    RETRY_AFTER_S,
    { details: detailsOf(use, bytes) },
  )
}

/** Locks an account's storage, and throws as `assertFits` does; returns the usage without the new bytes. */
export async function admitBytes(
  trx: Transaction<Database>,
  config: Config,
  { accountId, ...added }: NewBytes & { accountId: string },
): Promise<StorageUse> {
  const use = await storageRepository.lockStorage(trx, accountId, defaultQuotaBytes(config))
  assertFits(use, added)
  return use
}

const detailsOf = ({ limitBytes, storedBytes, underWayBytes }: StorageUse, bytes: number | undefined) => ({
  limit_bytes: limitBytes,
  stored_bytes: storedBytes,
  under_way_bytes: underWayBytes,
  ...(bytes !== undefined && { upload_bytes: bytes }),
})

const text = (bytes: number): string => `${bytes.toLocaleString('en-US')} bytes`
