import type { ControlActivities } from '../../../activities/control/index.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { until } from '../assertions/until.ts'
import { callOf, formOf } from '../builders/forms.ts'
import { type Answer, type Call, startApi, type TestApi } from './api.ts'
import { startControlWorker, startTemporal, type TestTemporal } from './temporal.ts'

export const DATASETS = '/api/builder/v1/datasets'
export const CSV = 'age,name\n31,Ada\n45,Grace\n'

/** The fields that any dataset route may return. */
export interface Body {
  dataset_id: string
  account_id: string
  status: string
  visibility: string
  num_samples: number
  total_size_bytes: number
  columns: unknown
  error_message: string
  created_at: string
  message: string
  is_reading: boolean
  upload_id: string
  signed_url: string
  expires_at: string
  datasets: Body[]
  next_cursor: string | null
  error: { code: string; message: string; details: { dataset_id: string } }
  detail: [{ msg: string }]
}

type FormFile = { text: string | Uint8Array<ArrayBuffer>; part?: string }

/** Returns a multipart body as clients send it, with its header. */
export async function form(
  fields: Record<string, string>,
  file?: FormFile,
  { fileFirst = false } = {},
): Promise<{ raw: Uint8Array; headers: Record<string, string> }> {
  const part = file && { [file.part ?? 'file']: new File([file.text], 'people.csv') }
  return callOf(formOf(fileFirst ? { ...part, ...fields } : { ...fields, ...part }))
}

/** A gateway with Temporal, a control worker and one account, and the calls that dataset tests need. */
export class DatasetApi implements AsyncDisposable {
  readonly temporal: TestTemporal
  readonly api: TestApi
  readonly key: string
  readonly accountId: string
  #worker: AsyncDisposable | undefined

  private constructor(temporal: TestTemporal, api: TestApi, account: { key: string; accountId: string }) {
    this.temporal = temporal
    this.api = api
    this.key = account.key
    this.accountId = account.accountId
  }

  static async start(env: NodeJS.ProcessEnv = {}): Promise<DatasetApi> {
    const temporal = await startTemporal()
    const api = await startApi({ env, config: { TEMPORAL_ADDRESS: temporal.address } })
    const opened = new DatasetApi(temporal, api, await api.account())
    await opened.startWorker()
    return opened
  }

  /** `wrap` may change the activities, for example to break one. */
  async startWorker(wrap?: (activities: ControlActivities) => object): Promise<void> {
    this.#worker = await startControlWorker(this.temporal, this.api.services, wrap)
  }

  async stopWorker(): Promise<void> {
    await this.#worker?.[Symbol.asyncDispose]()
    this.#worker = undefined
  }

  call(method: string, path: string, { body, headers, key = this.key }: Call = {}): Promise<Answer<Body>> {
    const options = { key, ...(body !== undefined && { body }), ...(headers && { headers }) }
    return this.api.call<Body>(method, DATASETS + path, options)
  }

  async upload(...parts: Parameters<typeof form>): Promise<Answer<Body>> {
    return this.api.call<Body>('POST', `${DATASETS}/upload`, { key: this.key, ...(await form(...parts)) })
  }

  async create(storage_format = 'csv'): Promise<string> {
    return (await this.call('POST', '', { body: { dataset_name: 'made', storage_format } })).body.dataset_id
  }

  async init(id: string, content_type = 'text/csv'): Promise<Body> {
    return (await this.call('POST', `/${id}/uploads/init`, { body: { filename: 'a.csv', content_type } }))
      .body
  }

  put(url: string, text: string, type = 'text/csv'): Promise<Response> {
    return fetch(url, { method: 'PUT', body: text, headers: { 'content-type': type } })
  }

  commit(id: string, uploadId: string): Promise<Answer<Body>> {
    return this.call('POST', `/${id}/uploads/${uploadId}/commit`)
  }

  /** Starts an upload and PUTs the file, without the commit. */
  async send(id: string, text: string): Promise<string> {
    const { upload_id, signed_url } = await this.init(id)
    const { status } = await this.put(signed_url, text)
    if (status !== 200) throw new Error(`the PUT returned ${status}`)
    return upload_id
  }

  async fill(id: string, text: string): Promise<{ uploadId: string; answer: Answer<Body> }> {
    const uploadId = await this.send(id, text)
    return { uploadId, answer: await this.commit(id, uploadId) }
  }

  /** Waits until the files of a deleted dataset are gone. */
  async filesRemoved(id: string): Promise<void> {
    const removal = this.temporal.client.workflow.getHandle(WORKFLOW_ID.datasetRemoval(id))
    await until(async () => {
      const about = await removal.describe().catch(() => undefined)
      return about?.status.name === 'COMPLETED'
    }, 20_000)
  }

  /** Returns the keys of all objects stored for a dataset. */
  async objectsOf(id: string): Promise<string[]> {
    const folders = ['incoming', 'datasets'].map((stage) => `${stage}/${this.accountId}/${id}/`)
    const lists = folders.map((folder) => Array.fromAsync(this.api.services.objects.list(folder)))
    return (await Promise.all(lists)).flat().map(({ key }) => key)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopWorker()
    await this.api[Symbol.asyncDispose]()
    await this.temporal[Symbol.asyncDispose]()
  }
}
