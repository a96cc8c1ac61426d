import { activityInfo, cancellationSignal, heartbeat } from '@temporalio/activity'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { databaseNow } from '../../../db/clock.ts'
import * as datasetRepository from '../../../db/repositories/datasets/datasets.ts'
import * as ingestRepository from '../../../db/repositories/datasets/ingests.ts'
import type { OpenIngest } from '../../../db/repositories/datasets/ingests.ts'
import * as workflowStartRepository from '../../../db/repositories/platform/workflow-starts.ts'
import { ApiError, STORAGE_FULL } from '../../../domain/errors.ts'
import { datasetFolder, datasetKey, previewKey } from '../../../domain/object-keys.ts'
import { FairSemaphore, QueueFullError } from '../../../platform/async/fair-semaphore.ts'
import { DatasetRefused, type DatasetProfile } from '../../../platform/datasets/profile.ts'
import {
  DatasetReaderBroken,
  type ReadBounds,
  readDataset,
  temporaryFolder,
} from '../../../platform/datasets/reader.ts'
import { isDiskFull } from '../../../platform/disk-space.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'
import type { DatasetPreview } from '../../../schemas/dataset.ts'
import { datasetIngestStart } from '../../../workflows/contract/starts.ts'
import type { ControlDeps } from '../deps.ts'

const HEARTBEAT_INTERVAL_MS = 1_000
/** A file that has crashed its reader this many times is rejected. */
const MAX_BROKEN_READS = 4
/**
 * Limits on this worker's reader processes. Each can use 2 GB, and an account that uploads many files must not occupy
 * all of them.
 */
const READERS = { most: 4, mostPerKey: 2, mostWaiting: 64 }
/** The largest number of `ingestDataset` executions on one worker; nearly all of them are waiting for a reader. */
export const MAX_INGESTS = READERS.most + READERS.mostWaiting
/**
 * The delay before Temporal retries a file that found the queue full. It grows by this amount with each try, up to
 * `MAX_RECONNECT_DELAY_MS`.
 */
const RECONNECT_DELAY_MS = 2_000
const MAX_RECONNECT_DELAY_MS = 15_000
const WAITS_FOR_ROOM =
  'the platform has no disk space; the file is stored and will be read as soon as an operator frees or adds space'
const STALL_TIMEOUT_S = 120
const STALLED_BATCH = 100
/** Longer than the retention of uploads that were never committed. */
const ORPHAN_TTL_MS = 25 * 3_600_000
const ORPHAN_BATCH = 1_000

export interface IngestOutcome {
  status: 'ready' | 'failed' | 'closed'
  numSamples?: number
}

/** Heartbeat details, which survive from one attempt to the next. */
interface Progress {
  brokenReads: number
}

export const createDatasetActivities = (
  { db, objects }: ControlDeps,
  turns = new FairSemaphore(READERS),
  bounds?: ReadBounds,
) => ({
  /**
   * Reads one upload when it is its account's turn. Safe to repeat because the file is moved to its own key before it
   * is read, reading changes nothing, and one guarded update writes the outcome.
   */
  async ingestDataset(uploadId: string): Promise<IngestOutcome> {
    const upload = await ingestRepository.findOpenIngest(db, uploadId)
    if (!upload) return { status: 'closed' }
    const progress: Progress = {
      brokenReads: 0,
      ...(activityInfo().heartbeatDetails as Progress | undefined),
    }
    const beating = setInterval(() => heartbeat(progress), HEARTBEAT_INTERVAL_MS)
    try {
      using _turn = await turns.take(upload.accountId, cancellationSignal())
      // The upload may have been closed while it waited.
      if (!(await ingestRepository.findOpenIngest(db, uploadId))) return { status: 'closed' }
      const key = await settle(objects, upload)
      const { preview, ...profile } = await readStored(objects, { key, upload, bounds })
      if (preview)
        await objects.put(previewKey(key), Buffer.from(JSON.stringify(preview)), {
          contentType: 'application/json',
        })
      const finished = await ingestRepository.finishIngest(db, uploadId, { object_key: key, ...profile })
      const unwanted = finished ? finished.replacedKey : key
      if (unwanted) await removeFile(objects, unwanted)
      return finished ? { status: 'ready', numSamples: profile.num_samples } : { status: 'closed' }
    } catch (err) {
      if (err instanceof QueueFullError) throw comeBack(err)
      if (err instanceof DatasetReaderBroken) {
        progress.brokenReads += 1
        heartbeat(progress)
      }
      // The note is best-effort: the database's disk may be full as well.
      if (isWithoutRoom(err))
        await ingestRepository.noteIngestWaiting(db, uploadId, WAITS_FOR_ROOM).catch(() => undefined)
      const reason = refusalReason(err, progress)
      if (reason === undefined) throw err
      await ingestRepository.failIngest(db, uploadId, reason)
      await removeFile(objects, keyOf(upload))
      return { status: 'failed' }
    } finally {
      clearInterval(beating)
    }
  },

  /** Closes an upload that will not be read. Safe to repeat because only an open upload is closed. */
  async giveUpIngest(uploadId: string, isCancelled: boolean): Promise<void> {
    const reason = isCancelled ? 'an operator cancelled the file check' : 'the file could not be checked'
    await ingestRepository.failIngest(db, uploadId, reason)
  },

  /** Removes a deleted dataset's files. Safe to repeat because deleting an absent object succeeds. */
  async removeDatasetFiles(datasetId: string): Promise<void> {
    const dataset = await datasetRepository.findDeletedDataset(db, datasetId)
    if (!dataset) throw ApplicationFailure.nonRetryable('the dataset is not deleted', 'conflict')
    for (const stage of ['incoming', 'datasets'] as const) {
      await objects.deletePrefix(datasetFolder(stage, { accountId: dataset.account_id, datasetId }))
    }
  },

  /**
   * Starts a workflow for each upload that has none, for example because an operator terminated it. Safe to repeat
   * because a running workflow is not started twice, and a closed upload is not read again.
   */
  async restartStalledIngests(): Promise<{ count: number }> {
    const stalled = await ingestRepository.stalledIngests(db, {
      olderThanS: STALL_TIMEOUT_S,
      limit: STALLED_BATCH,
    })
    await db.transaction().execute(async (trx) => {
      for (const upload of stalled)
        await workflowStartRepository.enqueueWorkflow(trx, datasetIngestStart(upload))
    })
    return { count: stalled.length }
  },

  /**
   * Removes uploaded files without a row, left by a killed request or by a PUT after the commit. Safe to repeat because
   * the choice depends only on age, and an unread file is not removed.
   */
  async removeOrphanedUploads(): Promise<{ count: number }> {
    const oldest = (await databaseNow(db)).getTime() - ORPHAN_TTL_MS
    const old: string[] = []
    for await (const { key, lastModified } of objects.list('incoming/')) {
      if (lastModified.getTime() < oldest) old.push(key)
      if (old.length === ORPHAN_BATCH) break
    }
    const wanted = await ingestRepository.openUploadKeys(db, old)
    const orphans = old.filter((key) => !wanted.has(key))
    for (const key of orphans) await objects.delete(key)
    return { count: orphans.length }
  },
})

/** Returns whether a disk has no space for the file or its preview; Temporal retries until there is space. */
const isWithoutRoom = (err: unknown): boolean =>
  isDiskFull(err) || (err instanceof ApiError && err.details['reason'] === STORAGE_FULL)

const keyOf = (upload: OpenIngest): string => datasetKey('datasets', upload, upload.storageFormat)

async function removeFile(objects: ObjectStore, key: string): Promise<void> {
  await objects.delete(previewKey(key))
  await objects.delete(key)
}

/** Moves the file away from the key of its signed URL, so that it cannot change after the check. */
async function settle(objects: ObjectStore, upload: OpenIngest): Promise<string> {
  const key = keyOf(upload)
  await objects.move(upload.uploadedKey, key)
  return key
}

async function readStored(
  objects: ObjectStore,
  { key, upload, bounds }: { key: string; upload: OpenIngest; bounds: ReadBounds | undefined },
): Promise<DatasetProfile & { total_size_bytes: number; preview: DatasetPreview | null }> {
  const signal = cancellationSignal()
  const info = await objects.head(key)
  await using folder = await temporaryFolder()
  await using copy = await objects.localCopy(key, { directory: folder.path, signal })
  const { num_samples, columns, decoded_bytes, preview } = await readDataset(
    { path: copy.path, format: upload.storageFormat },
    { signal, bounds },
  )
  return { num_samples, columns, decoded_bytes, preview, total_size_bytes: info?.sizeBytes ?? 0 }
}

/** Frees this worker's slot and lets Temporal retry later, because a waiting activity would hold the slot. */
const comeBack = (cause: QueueFullError): ApplicationFailure =>
  ApplicationFailure.create({
    message: 'the queue of files to read on this worker is full',
    type: 'unavailable',
    nextRetryDelay: Math.min(MAX_RECONNECT_DELAY_MS, RECONNECT_DELAY_MS * activityInfo().attempt),
    category: ApplicationFailureCategory.BENIGN,
    cause,
  })

/** Returns the error for the file's owner; `undefined` for errors that the file did not cause. */
function refusalReason(err: unknown, { brokenReads }: Progress): string | undefined {
  if (err instanceof DatasetRefused) return err.message
  if (err instanceof ApiError && err.code === 'not_found') return 'the uploaded file no longer exists'
  const isHopeless = err instanceof DatasetReaderBroken && brokenReads >= MAX_BROKEN_READS
  return isHopeless ? 'the file cannot be read: it crashes the reader' : undefined
}
