import type { Static } from 'typebox'
import * as datasetRepository from '../../../db/repositories/datasets/datasets.ts'
import type { FullDataset, ListedDataset } from '../../../db/repositories/datasets/datasets.ts'
import { ApiError } from '../../../domain/errors.ts'
import type { Dataset, DatasetList } from '../../../schemas/dataset.ts'
import { listDatasets } from '../../routes/builder/datasets/list-datasets.ts'
import { operate } from '../operate.ts'
import type { AccountRequestContext } from '../tool.ts'
import { firstLines } from './first-lines.ts'
import { idIn, type ResourceKind } from './kind.ts'

const RECENT = 20
const ROWS = 20
/** How much of a file's beginning we read for its first rows. */
const START_BYTES = 64 * 1024

const TEMPLATE = 'hearth://datasets/{dataset_id}/rows'
const TEXT_TYPES: Readonly<Record<string, string>> = { csv: 'text/csv', jsonl: 'application/jsonl' }

/** The first rows of a dataset, exactly as in its file. */
export const datasetRows: ResourceKind = {
  template: {
    uriTemplate: TEMPLATE,
    name: 'dataset-rows',
    title: 'First rows of a dataset',
    description: `The first ${ROWS} rows of a CSV or JSONL dataset, exactly as in its file; for other formats, the columns`,
  },
  async recent(on) {
    return (await recentDatasets(on)).map(({ dataset_id, dataset_name, storage_format }) => ({
      uri: TEMPLATE.replace('{dataset_id}', dataset_id),
      name: `rows-${dataset_id}`,
      title: `First rows of ${dataset_name}`,
      description: 'The first rows, to see what the columns contain',
      mimeType: TEXT_TYPES[storage_format] ?? 'application/json',
    }))
  },
  complete: async (_argument, on) => (await recentDatasets(on)).map(({ dataset_id }) => dataset_id),
  async read(uri, on) {
    const id = idIn(uri, TEMPLATE)
    if (id === undefined) return undefined
    const row = await usableDataset(on, id)
    const mimeType = TEXT_TYPES[row.storage_format]
    if (mimeType === undefined || row.object_key === null) {
      return [
        { uri, mimeType: 'application/json', text: JSON.stringify({ columns: await columnsOf(on, id) }) },
      ]
    }
    const file = { key: row.object_key, size: row.total_size_bytes ?? 0, format: row.storage_format }
    return [{ uri, mimeType, text: await startOf(file, on) }]
  },
}

/** Returns the account's newest datasets that are ready. */
export async function recentDatasets(on: AccountRequestContext): Promise<Dataset[]> {
  const inputs = { query: { status: 'ready', limit: RECENT } }
  return (await operate<Static<typeof DatasetList>>(listDatasets, on, inputs)).datasets
}

async function usableDataset(
  { request: { caller }, services: { db } }: AccountRequestContext,
  id: string,
): Promise<ListedDataset> {
  const row = await datasetRepository.findUsableDataset(db, caller.accountId, id)
  if (!row) throw new ApiError('not_found', 'there is no dataset with this id')
  if (row.status === 'ready') return row
  throw new ApiError('conflict', `this dataset has no rows to show: it is ${row.status}`)
}

async function columnsOf(
  { request: { caller }, services: { db } }: AccountRequestContext,
  id: string,
): Promise<FullDataset['columns']> {
  return (await datasetRepository.findUsableDatasetInFull(db, caller.accountId, id))?.columns ?? null
}

async function startOf(
  { key, size, format }: { key: string; size: number; format: string },
  { request, services: { objects } }: AccountRequestContext,
): Promise<string> {
  const end = Math.min(size, START_BYTES) - 1
  if (end < 0) return ''
  const { body } = await objects.get(key, { range: { start: 0, end }, signal: request.signal })
  const chunks: Buffer[] = []
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk)
  // Read one more line than rows, for a CSV's header. An extra JSON line does no harm.
  return firstLines(Buffer.concat(chunks).toString(), ROWS + 1, { format, isCut: size > START_BYTES })
}
