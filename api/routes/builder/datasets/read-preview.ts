import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import type { DatasetRow } from '../../../../db/tables/datasets.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { previewKey } from '../../../../domain/object-keys.ts'
import type { DatasetPreview } from '../../../../schemas/dataset.ts'
import type { Services } from '../../../services.ts'
import { noDataset } from './present.ts'

/** Returns a dataset that the account may use, with what is kept of its first rows; throws a 409 when nothing is. */
export async function readPreview(
  { db, objects }: Pick<Services, 'db' | 'objects'>,
  { accountId, datasetId, signal }: { accountId: string; datasetId: string; signal: AbortSignal },
): Promise<{ dataset: DatasetRow; preview: DatasetPreview }> {
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
        : 'this dataset was read before its first rows were kept; upload its file again to see them',
    )
  const chunks: Buffer[] = []
  for await (const chunk of found.body as AsyncIterable<Buffer>) chunks.push(chunk)
  return { dataset, preview: JSON.parse(Buffer.concat(chunks).toString()) as DatasetPreview }
}

const nothingKept = ({ status }: DatasetRow, message: string): ApiError =>
  new ApiError('conflict', message, { details: { status } })
