/** The folders of dataset files: the upload first, then the verified content. */
export type DatasetStage = 'incoming' | 'datasets'

interface DatasetRef {
  accountId: string
  datasetId: string
}

/**
 * The folder for files that clients PUT under a lease, until the gateway has checked that the lease still allows them.
 */
export const INCOMING_PUTS = 'incoming/puts/'

/** The key of a file in a model that an operator imports. */
export const importKey = (versionId: string, path: string): string => `imports/${versionId}/${path}`

/** The folder of files that were PUT for a task. */
export const taskFolder = ({ accountId, taskId }: { accountId: string; taskId: string }): string =>
  `tasks/${accountId}/${taskId}/`

/** The folder of evidence adapters. */
export const EVIDENCE = 'evidence/'

/** The key of the adapter for one piece of evidence. */
export const evidenceKey = (evidenceId: string): string => `${EVIDENCE}${evidenceId}/adapter.safetensors`

/** The folder of files that structured runs produce. */
export const EVALUATIONS = 'evaluations/'

/** The folder of a structured run's files. */
export const evaluationFolder = (runId: string): string => `${EVALUATIONS}${runId}/`

/** The key of a structured run's file: the vectors of one side, or its adapter. */
export const evaluationKey = (runId: string, file: 'source' | 'target' | 'adapter'): string =>
  `${evaluationFolder(runId)}${file === 'adapter' ? 'adapter.safetensors' : `${file}.npy`}`

/** The key of a file that a caller uploaded as an input. */
export const inputKey = (accountId: string, id: string): string => `inputs/${accountId}/${id}`

/** The folder of payloads relayed between nodes through the store. */
export const RELAYED = 'cohorts/'

/** The folder of everything that a cohort hands over through the store. */
export const cohortFolder = ({ accountId, cohortId }: { accountId: string; cohortId: string }): string =>
  `${RELAYED}${accountId}/${cohortId}/`

/** The key of the payload that one attempt at an edge relays. */
export const cohortEdgeKey = (edge: {
  accountId: string
  cohortId: string
  edgeId: string
  attempt: number
}): string => `${cohortFolder(edge)}${edge.edgeId}/${edge.attempt}`

/** The key of a value too large for the row of its edge. */
export const cohortValueKey = (value: {
  accountId: string
  cohortId: string
  edgeId: string
  sha256: string
}): string => `${cohortFolder(value)}${value.edgeId}/value-${value.sha256}`

/** The folder of one dataset at one stage. */
export const datasetFolder = (stage: DatasetStage, { accountId, datasetId }: DatasetRef): string =>
  `${stage}/${accountId}/${datasetId}/`

/**
 * The key of an uploaded file. A client may write to `incoming` while its signed URL is valid; no client can write to
 * `datasets`.
 */
export const datasetKey = (
  stage: DatasetStage,
  dataset: DatasetRef & { uploadId: string },
  extension = 'upload',
): string => `${datasetFolder(stage, dataset)}${dataset.uploadId}/data.${extension}`

/** The dataset upload that a key belongs to. */
export interface DatasetUpload {
  accountId: string
  uploadId: string
}

/** Returns the upload whose file a client may PUT under this key; undefined for other kinds of keys. */
export function uploadOfKey(key: string): DatasetUpload | undefined {
  const [stage, accountId, , uploadId, ...rest] = key.split('/')
  const isUpload = stage === ('incoming' satisfies DatasetStage) && accountId && uploadId && rest.length === 1
  return isUpload ? { accountId, uploadId } : undefined
}

/** Returns the key of the stored preview of a dataset's first rows, next to its file. */
export const previewKey = (objectKey: string): string => objectKey.replace(/[^/]*$/, 'preview.json')

/** Returns the account that owns the object; `imports` for models that operators imported. */
export function accountOfKey(key: string): string {
  const [stage = '', accountId = ''] = key.split('/')
  return stage === 'imports' ? stage : accountId
}

/** A file that a node PUTs under a lease. */
export interface LeaseFile {
  kind: 'checkpoint' | 'artifact' | 'output'
  filename: string
  /**
   * Known once the node has sent it. The object store then accepts only these bytes under the key, so the object never
   * changes.
   */
  sha256?: string
}

/** The key of a lease's file in the folder of its task or job. Every attempt and content has its own key. */
export const leaseFileKey = (attempt: number, { kind, filename, sha256 }: LeaseFile): string =>
  `${attempt}/${kind}/${sha256 === undefined ? '' : `sha256=${sha256}/`}${filename}`
