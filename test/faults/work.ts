import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { eventually } from '../support/assertions/until.ts'
import { regressionTable } from '../support/builders/tables.ts'
import { type BuilderClient, uploadTable } from '../support/servers/clients/builder-client.ts'

const INPUT = { instances: [{ age: 40, income: 30_000, region: 'north' }] }
const ENDED = new Set(['succeeded', 'failed'])
/** The ledger of every request is checked, so more requests would only make the test slower. */
const BURST_PAUSE_MS = 25

/** The client's view of a platform. */
export interface PlatformAccess {
  api: BuilderClient
}

/** A model that has a price and isn't loaded on any node yet. */
export interface Model {
  endpointId: string
}

/** A request that the platform has accepted. */
export interface SubmittedTask {
  taskId: string
  /** The result, if the response already contained it. */
  reported?: string
}

interface Task {
  task_id: string
  status: string
  error?: string | null
}

/** Trains a small model and registers it with a price. */
export async function makeModel({ api }: PlatformAccess, name: string, seed: number): Promise<Model> {
  const { dataset_id: datasetId } = await uploadTable(api, regressionTable(200, seed))
  const { job_id: jobId } = await api.post<{ job_id: string }>('/training/runs', {
    job_name: name,
    model_config_id: 'tabular-regression',
    dataset_id: datasetId,
    hyperparameters: { epochs: 3 },
  })
  await eventually(`the model ${name}`, async () => {
    const { status } = await api.get<{ status: string }>(`/training/runs/${jobId}`)
    assert.ok(['pending', 'running', 'completed'].includes(status), status)
    return status === 'completed' || undefined
  })
  const body = { name: `${name}-${Date.now().toString(36)}`, price_per_request: 0.01 }
  const { endpoint_id: endpointId } = await api.post<{ endpoint_id: string }>(
    `/training/runs/${jobId}/register-for-inference`,
    body,
  )
  return { endpointId }
}

/** Uploads a file to a signed URL, ready to be committed. */
export async function putTable(
  { api }: PlatformAccess,
  table: Buffer,
): Promise<{ datasetId: string; commit: string }> {
  const dataset = {
    dataset_name: 'table',
    description: '',
    storage_format: 'csv',
    visibility: 'private',
  }
  const { dataset_id: datasetId } = await api.post<{ dataset_id: string }>('/datasets', dataset)
  const { upload_id: uploadId, signed_url: url } = await api.post<{ upload_id: string; signed_url: string }>(
    `/datasets/${datasetId}/uploads/init`,
    { filename: 'table.csv', content_type: 'text/csv' },
  )
  const put = await request(url, {
    method: 'PUT',
    headers: { 'content-type': 'text/csv' },
    body: table,
  })
  await put.body.dump()
  assert.ok(put.statusCode < 300, `PUT returned ${put.statusCode}`)
  return { datasetId, commit: `/datasets/${datasetId}/uploads/${uploadId}/commit` }
}

/** Enough epochs that the run is still going when a process is killed. */
export const RUN_EPOCHS = 900

/** Starts a run of many short epochs with checkpoints. */
export async function startRun(
  { api }: PlatformAccess,
  datasetId: string,
  epochs = RUN_EPOCHS,
): Promise<string> {
  const { job_id: jobId } = await api.post<{ job_id: string }>('/training/runs', {
    job_name: 'under-fire',
    model_config_id: 'tabular-regression',
    dataset_id: datasetId,
    hyperparameters: { epochs, learning_rate: 0.01, num_leaves: 63, checkpoint_every_epochs: 100 },
  })
  return jobId
}

/** Retries an idempotent call until the platform answers it. */
export function persistently<T>(what: string, call: () => Promise<T>): Promise<T> {
  let last: unknown
  return eventually(
    what,
    () =>
      call().then(
        (value) => value,
        (err: unknown) => void (last = err),
      ),
    90_000,
  ).catch(() => {
    throw new Error(`${what} never worked`, { cause: last })
  })
}

/** Sends one asynchronous request. */
export async function inferLater(
  { api }: PlatformAccess,
  model: Model,
  input: object = INPUT,
): Promise<SubmittedTask> {
  const answer = await api.post<Task>(`/endpoints/${model.endpointId}/infer:async`, { input })
  return { taskId: answer.task_id }
}

/** Sends one synchronous request, which becomes a queued task if the model isn't loaded in time. */
export async function inferNow({ api }: PlatformAccess, model: Model): Promise<SubmittedTask> {
  const answer = await api.post<Task>(`/endpoints/${model.endpointId}/infer`, {
    input: INPUT,
    sync_timeout_s: 5,
  })
  return { taskId: answer.task_id, ...(ENDED.has(answer.status) && { reported: answer.status }) }
}

/** Sends one asynchronous request; returns `undefined` if the platform rejected it. */
export const ask = (platform: PlatformAccess, model: Model): Promise<SubmittedTask | undefined> =>
  inferLater(platform, model).catch(() => undefined)

/** Sends requests to a warm model, `width` at a time, until stopped; returns the accepted ones. */
export function burst(platform: PlatformAccess, model: Model, width: number, pauseMs = BURST_PAUSE_MS) {
  const accepted: SubmittedTask[] = []
  let stopped = false
  let refused = 0
  const lane = async () => {
    while (!stopped) {
      try {
        accepted.push(await inferNow(platform, model))
        await sleep(pauseMs)
      } catch {
        refused++
        await sleep(50)
      }
    }
  }
  const lanes = Array.from({ length: width }, lane)
  return {
    accepted,
    async end(): Promise<{ refused: number }> {
      stopped = true
      await Promise.all(lanes)
      return { refused }
    },
  }
}

/** Returns the outcome of each accepted task. */
export async function endings(
  { api }: PlatformAccess,
  accepted: SubmittedTask[],
): Promise<Map<string, string>> {
  const ends = new Map<string, string>()
  for (const { taskId } of accepted) {
    const task = await eventually(
      `the end of task ${taskId}`,
      async () => {
        // Reading hundreds of ended tasks in a row would exceed the request rate limit.
        const current = await api.get<Task>(`/tasks/${taskId}`).catch((err: unknown) => {
          if (!String(err).includes('answered 429')) throw err
        })
        return current && ENDED.has(current.status) ? current : undefined
      },
      240_000,
    )
    ends.set(taskId, task.status)
  }
  return ends
}

interface Audit {
  status: string
  entries: { kind: string; purse: string; amount_micro: number }[]
  sums: { total_micro: number }
}

/** Fails unless a task's ledger entries balance and each kind of entry exists exactly once. */
export async function checkBooks(
  { ready }: { ready: { base_url: string; operations_key: string } },
  taskId: string,
): Promise<void> {
  const answer = await request(`${ready.base_url}/api/v1/admin/audit/task/${taskId}`, {
    headers: { 'x-api-key': ready.operations_key },
  })
  const audit = (await answer.body.json()) as Audit
  const booked = audit.entries.map(({ kind, purse }) => `${kind} ${purse}`)
  const kinds = [...new Set(audit.entries.map(({ kind }) => kind))].toSorted()

  assert.equal(answer.statusCode, 200)
  assert.equal(audit.sums.total_micro, 0, `task ${taskId} does not balance`)
  assert.equal(
    new Set(booked).size,
    booked.length,
    `task ${taskId} has duplicate ledger entries: ${booked.join(', ')}`,
  )
  const expected = audit.status === 'succeeded' ? ['capture', 'hold', 'payout'] : ['hold', 'refund']
  assert.deepEqual(kinds, expected, `task ${taskId} is ${audit.status}`)
}
