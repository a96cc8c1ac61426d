import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { request } from 'undici'
import { newId } from '../../../domain/ids.ts'
import type { JobClaim, UploadUrls, UploadUrlsRequest } from '../../../schemas/nodes/lease.ts'
import type { CreateTrainingRun } from '../../../schemas/training-run.ts'
import type { TestApi } from '../servers/api.ts'
import type { SignedNode } from '../servers/nodes/signed-node.ts'
import { regressionTable } from './tables.ts'

const COLUMNS = ['age', 'income', 'region', 'target']

/** Creates a ready dataset with its file in the store. */
export async function readyDataset(
  api: TestApi,
  accountId: string,
  overrides: {
    name?: string
    rows?: number
    status?: 'pending' | 'ready' | 'failed'
    visibility?: 'private' | 'public'
    columns?: readonly (string | { name: string; type: string })[]
    format?: 'csv' | 'jsonl'
  } = {},
): Promise<string> {
  const { db, objects } = api.services
  const {
    name = 'table',
    rows = 200,
    status = 'ready',
    visibility = 'private',
    columns = COLUMNS,
    format = 'csv',
  } = overrides
  const id = newId()
  const object_key = `accounts/${accountId}/datasets/${id}/table.csv`
  const table = regressionTable(rows)
  await objects.put(object_key, table, { contentType: 'text/csv' })
  await db
    .insertInto('dataset')
    .values({
      id,
      account_id: accountId,
      dataset_name: name,
      description: '',
      status,
      storage_format: format,
      visibility,
      num_samples: rows,
      total_size_bytes: table.length,
      columns: JSON.stringify(
        columns.map((column) => (typeof column === 'string' ? { name: column, type: 'number' } : column)),
      ),
      object_key,
    })
    .execute()
  return id
}

/** Starts a run over REST and returns its id. */
export async function createRun(
  api: TestApi,
  key: string,
  body: Partial<CreateTrainingRun> & { dataset_id: string },
): Promise<string> {
  const answer = await api.call('POST', '/api/builder/v1/training/runs', {
    key,
    body: { job_name: 'prices', model_config_id: 'tabular-regression', ...body },
  })
  assert.equal(answer.status, 202, answer.text)
  return answer.body.job_id
}

/** Claims a job as a node does. */
export async function claimJob(node: SignedNode, jobId: string, leaseS = 30): Promise<JobClaim> {
  const answer = await node.post<JobClaim>(`/api/v1/jobs/${jobId}/claim`, { lease_s: leaseS })
  assert.equal(answer.status, 200, answer.text)
  return answer.body
}

/** Uploads a file under a lease and returns its description. */
export async function putUnderLease(
  node: SignedNode,
  token: string,
  { kind, filename, text }: { kind: 'artifact' | 'checkpoint'; filename: string; text: string },
) {
  const bytes = Buffer.from(text)
  const file = { ...fileOf(filename, text), kind }
  const { url, headers } = await signedPut(node, token, file)
  const put = await request(url, { method: 'PUT', headers, body: bytes })
  assert.ok(put.statusCode < 300, await put.body.text())
  const { kind: _, ...metadata } = file
  return metadata
}

/** Describes a file as a node does. */
export const fileOf = (filename: string, text: string) => ({
  filename,
  size_bytes: Buffer.byteLength(text),
  sha256: createHash('sha256').update(text).digest('hex'),
  content_type: 'text/plain',
})

/** Returns the URL and headers of a PUT under a lease. */
export async function signedPut(node: SignedNode, token: string, file: UploadUrlsRequest['files'][number]) {
  const urls = await node.post<UploadUrls>(`/api/v1/leases/${token}:urls`, { files: [file] })
  assert.equal(urls.status, 200, urls.text)
  const [{ url, headers } = { url: '', headers: undefined }] = urls.body.files
  assert.ok(headers)
  return { url, headers }
}

/** Stores a checkpoint under a lease. */
export async function checkpoint(node: SignedNode, token: string, epoch: number) {
  const { content_type: _, ...file } = await putUnderLease(node, token, {
    kind: 'checkpoint',
    filename: `epoch-${epoch}.ckpt`,
    text: `state ${epoch}`,
  })
  return node.post(`/api/v1/leases/${token}:checkpoint`, { ...file, epoch })
}

/** Completes a job with a model of two small files. */
export async function completeJob(node: SignedNode, token: string) {
  return node.post(`/api/v1/leases/${token}:complete`, await resultOf(node, token))
}

/** Stores a model of two small files and returns the result of its job. */
export async function resultOf(node: SignedNode, token: string) {
  const artifacts = []
  for (const filename of ['manifest.json', 'model.txt']) {
    artifacts.push(await putUnderLease(node, token, { kind: 'artifact', filename, text: `the ${filename}` }))
  }
  return { artifacts, ...RESULT }
}

/** A trainer's description of a finished model. */
export const RESULT = {
  metrics: { mae: 1.5, rmse: 2, r2: 0.9, epochs: [{ epoch: 1, train_loss: 3, val_loss: 4 }] },
  input_schema: { type: 'object' },
  output_schema: { type: 'object' },
  example_input: { instances: [{ age: 40 }] },
  example_output: { predictions: [1] },
}
