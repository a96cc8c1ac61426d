import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely, Transaction } from 'kysely'
import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import * as ingestRepository from '../../../../db/repositories/datasets/ingests.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../../../db/tables.ts'
import type { DatasetRow, DatasetUploadRow } from '../../../../db/tables/datasets.ts'
import { temporaryError } from '../../../../domain/errors.ts'
import { datasetIngestStart } from '../../../../workflows/contract/starts.ts'
import { noDataset } from './present.ts'

/** The account, dataset and id of an upload. */
export interface UploadRef {
  accountId: string
  datasetId: string
  uploadId: string
}

/** The longest wait for a file to be read, and for reading to start. */
const MAX_WAIT_MS = 2 * 60_000
const MAX_START_MS = 10_000
const FIRST_POLL_INTERVAL_MS = 25
const MAX_POLL_INTERVAL_MS = 250

/** The message of a response that is sent before the file has been read. */
const STILL_READING =
  'The file is stored and will be checked; this takes longer than usual. Read the dataset, or commit again, to see the outcome.'

/** Returns `STILL_READING`, plus what the reader is waiting for, if anything. */
export const stillReading = ({ error_message: reason }: Pick<DatasetUploadRow, 'error_message'>): string =>
  reason === null ? STILL_READING : `${STILL_READING} It waits: ${reason}`

/** The largest number of an account's files that are being read or waiting to be read. */
export const MAX_UNREAD = 100
const RETRY_AFTER_S = 30

/**
 * Accepts a file that is in the object store: it will be read even if this process dies. Throws `rate_limited` when too
 * many files of the account are already waiting.
 */
export async function acceptUpload(
  trx: Transaction<Database>,
  dataset: Pick<DatasetRow, 'id' | 'status'>,
  uploadRef: UploadRef,
): Promise<void> {
  if (!(await ingestRepository.beginIngest(trx, dataset, uploadRef.uploadId))) return
  if ((await ingestRepository.countUnread(trx, uploadRef.accountId)) > MAX_UNREAD) {
    throw temporaryError(
      'rate_limited',
      `${MAX_UNREAD} files of this account are waiting to be read, which is the limit; send this one again later`,
      RETRY_AFTER_S,
    )
  }
  await workflowStartRepository.enqueueWorkflow(trx, datasetIngestStart(uploadRef))
}

/**
 * Waits until an accepted file has been read. Stops waiting after two minutes, with the upload still `ingesting`, or
 * after a few seconds if Temporal is unavailable and the workflow cannot start.
 */
export async function awaitIngest(
  db: Kysely<Database>,
  uploadRef: UploadRef,
  signal: AbortSignal,
): Promise<DatasetUploadRow> {
  const since = performance.now()
  for (let pause = FIRST_POLL_INTERVAL_MS; ; pause = Math.min(pause * 1.5, MAX_POLL_INTERVAL_MS)) {
    const upload = await datasetRepository.findUpload(db, uploadRef)
    if (!upload) throw noDataset()
    const waited = performance.now() - since
    if (upload.status !== 'ingesting' || waited > MAX_WAIT_MS) return upload
    if (
      waited > MAX_START_MS &&
      (await workflowStartRepository.isEnqueued(db, datasetIngestStart(uploadRef).workflowId))
    )
      return upload
    await sleep(pause, undefined, { signal })
  }
}
