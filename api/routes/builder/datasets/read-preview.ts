import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import type { ListedDataset } from '../../../../db/repositories/datasets/datasets.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { previewKey } from '../../../../domain/object-keys.ts'
import type { DatasetPreview } from '../../../../schemas/dataset.ts'
import type { Services } from '../../../services.ts'
import { noDataset } from './present.ts'

/**
 * Twice today's limit for a preview: 512 KB of rows, 1 MB of names, and five strings of 500 characters for each of 200
 * columns. Earlier versions did not limit names, and parsing them would block this thread.
 */
const MAX_PREVIEW_BYTES = 8 * 1024 * 1024

/** Returns a dataset that the account may use, with its stored first rows; throws a 409 when none are stored. */
export async function readPreview(
  { db, objects }: Pick<Services, 'db' | 'objects'>,
  { accountId, datasetId, signal }: { accountId: string; datasetId: string; signal: AbortSignal },
): Promise<{ dataset: ListedDataset; preview: DatasetPreview }> {
  const dataset = await datasetRepository.findUsableDataset(db, accountId, datasetId)
  if (!dataset) throw noDataset()
  if (dataset.status !== 'ready' || dataset.object_key === null)
    throw nothingKept(dataset, `this dataset has no rows to show: it is ${dataset.status}`)
  const found = await objects.get(previewKey(dataset.object_key), { signal }).catch((err: unknown) => {
    if (err instanceof ApiError && err.code === 'not_found') return undefined
    throw err
  })
  if (!found)
    throw nothingKept(
      dataset,
      dataset.storage_format === 'hf_dataset'
        ? 'the rows of archives are not shown'
        : 'this dataset was read by a version that did not store first rows; upload its file again to see them',
    )
  if (found.info.sizeBytes > MAX_PREVIEW_BYTES) {
    found.body.destroy()
    throw nothingKept(
      dataset,
      "this dataset's column names are too long to show its rows; upload its file again with shorter ones",
    )
  }
  const chunks: Buffer[] = []
  for await (const chunk of found.body as AsyncIterable<Buffer>) chunks.push(chunk)
  return { dataset, preview: JSON.parse(Buffer.concat(chunks).toString()) as DatasetPreview }
}

const nothingKept = ({ status }: ListedDataset, message: string): ApiError =>
  new ApiError('conflict', message, { details: { status } })
