import type { Static } from 'typebox'
import type { CreateDataset, Dataset } from '../../schemas/dataset.ts'
import { HearthError } from '../errors.ts'
import { pause } from '../pause.ts'
import type { DatasetOperations } from '../resources/dataset-operations.ts'
import { waitBefore } from '../retries.ts'
import type { Transport } from '../transport.ts'
import { isUrlSpent, putFile, type PutProgress } from './put-file.ts'

/** The state that a later process needs to resume an upload, as JSON. Its URL lets anyone write the file. */
export interface UploadState {
  dataset_id: string
  upload_id: string
  signed_url: string
  content_type: string
}

interface UploadOptions {
  /** In Node, use `openAsBlob(path)` from `node:fs` to avoid reading the file into memory. */
  file: Blob
  filename?: string
  content_type?: string
  onProgress?: (progress: PutProgress) => void
  /** Receives the state to pass as `resume`, before the file is sent. */
  onState?: (state: UploadState) => void
  signal?: AbortSignal
}

/** A file for a new dataset, for an existing one, or for an interrupted upload. */
export type UploadRequest = UploadOptions &
  (Static<typeof CreateDataset> | { dataset_id: string } | { resume: UploadState })

const CONTENT_TYPE = 'application/octet-stream'

/**
 * Uploads a file: session, PUT, commit. A PUT that loses its connection restarts from the beginning, because signed
 * URLs accept only whole files. An expired URL is replaced, and the commit is repeated until the platform has read the
 * file.
 */
export async function uploadFile(
  datasets: DatasetOperations,
  transport: Transport,
  request: UploadRequest,
): Promise<Dataset> {
  const { signal } = request
  let state = 'resume' in request ? request.resume : undefined
  if (state && (await wasPut(datasets, state, signal))) return commit(datasets, state, signal)
  const datasetId = state?.dataset_id ?? (await datasetOf(datasets, request))
  for (let tried = 1; ; tried++) {
    state ??= await begin(datasets, datasetId, request)
    try {
      await put(state, transport, request)
      break
    } catch (err) {
      const wait = isUrlSpent(err) ? 0 : waitBefore(err, tried, true)
      if (tried >= transport.tries || wait === undefined) throw err
      if (isUrlSpent(err)) state = undefined
      await pause(wait, signal)
    }
  }
  return commit(datasets, state, signal)
}

/** Returns whether the file of an interrupted upload has arrived and only the commit remains. */
async function wasPut(
  datasets: DatasetOperations,
  { dataset_id: datasetId, upload_id: uploadId }: UploadState,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  try {
    await datasets.commitUpload(datasetId, uploadId, { signal })
    return true
  } catch (err) {
    if (err instanceof HearthError && err.code === 'conflict') return false
    throw err
  }
}

async function datasetOf(datasets: DatasetOperations, request: UploadRequest): Promise<string> {
  if ('dataset_id' in request) return request.dataset_id
  if ('resume' in request) return request.resume.dataset_id
  const { dataset_name, storage_format, description, visibility, signal } = request
  const body = {
    dataset_name,
    storage_format,
    ...(description !== undefined && { description }),
    ...(visibility !== undefined && { visibility }),
  }
  return (await datasets.create(body, { signal })).dataset_id
}

async function begin(
  datasets: DatasetOperations,
  datasetId: string,
  { file, filename, content_type, onState, signal }: UploadRequest,
): Promise<UploadState> {
  const contentType = content_type ?? (file.type || CONTENT_TYPE)
  const name = filename ?? (file as Partial<File>).name ?? 'file'
  const session = await datasets.initUpload(
    datasetId,
    { filename: name, content_type: contentType },
    { signal },
  )
  const { upload_id, signed_url } = session
  const state = { dataset_id: datasetId, upload_id, signed_url, content_type: contentType }
  onState?.(state)
  return state
}

const put = (
  { signed_url: url, content_type: contentType }: UploadState,
  { fetch }: Transport,
  { file, onProgress, signal }: UploadRequest,
): Promise<void> => putFile({ url, file, contentType, onProgress, signal }, fetch)

async function commit(
  datasets: DatasetOperations,
  { dataset_id: datasetId, upload_id: uploadId }: UploadState,
  signal: AbortSignal | undefined,
): Promise<Dataset> {
  // Each commit call waits up to two minutes for the platform to read the file. If that isn't long enough, the response
  // has a message.
  let isReading = true
  while (isReading) {
    const { message } = await datasets.commitUpload(datasetId, uploadId, { signal })
    isReading = message !== undefined
  }
  return datasets.get(datasetId, { signal })
}
