/** The folders of dataset files: first the upload, then the verified content. */
export type DatasetStage = 'incoming' | 'datasets'

interface DatasetPlace {
  accountId: string
  datasetId: string
}

/** The folder for files that are PUT under a lease, until the gateway has checked that the lease still allows them. */
export const INCOMING_PUTS = 'incoming/puts/'

/** The key of a file in a model that an operator imports. */
export const importKey = (versionId: string, path: string): string => `imports/${versionId}/${path}`

/** The folder of the files that were PUT for a task. */
export const taskFolder = ({ accountId, taskId }: { accountId: string; taskId: string }): string =>
  `tasks/${accountId}/${taskId}/`

/** The folder of the maps of evidence. */
export const EVIDENCE = 'evidence/'

/** The key of the map of evidence. */
export const evidenceKey = (evidenceId: string): string => `${EVIDENCE}${evidenceId}/adapter.safetensors`

/** The folder of what structured runs make. */
export const EVALUATIONS = 'evaluations/'

/** The folder of what a structured run makes before it ends. */
export const evaluationFolder = (runId: string): string => `${EVALUATIONS}${runId}/`

/** The key of a file of a structured run: the vectors of one side, or its map. */
export const evaluationKey = (runId: string, file: 'source' | 'target' | 'adapter'): string =>
  `${evaluationFolder(runId)}${file === 'adapter' ? 'adapter.safetensors' : `${file}.npy`}`

/** The key of a file that a caller uploaded as an input. */
export const inputKey = (accountId: string, id: string): string => `inputs/${accountId}/${id}`

/** The folder of payloads that go from node to node through the store. */
export const RELAYED = 'cohorts/'

/** The folder of what a cohort hands over through the store. */
export const cohortFolder = ({ accountId, cohortId }: { accountId: string; cohortId: string }): string =>
  `${RELAYED}${accountId}/${cohortId}/`

/** The key of a payload that one attempt at an edge relays. */
export const cohortEdgeKey = (place: {
  accountId: string
  cohortId: string
  edgeId: string
  attempt: number
}): string => `${cohortFolder(place)}${place.edgeId}/${place.attempt}`

/** The key of a value that is too large for the row of its edge. */
export const cohortValueKey = (place: {
  accountId: string
  cohortId: string
  edgeId: string
  sha256: string
}): string => `${cohortFolder(place)}${place.edgeId}/value-${place.sha256}`

/** The folder of one dataset at one stage. */
export const datasetFolder = (stage: DatasetStage, { accountId, datasetId }: DatasetPlace): string =>
  `${stage}/${accountId}/${datasetId}/`

/**
 * The key of an uploaded file. A client may write to `incoming` while its signed URL is valid; no client
 * can write to `datasets`.
 */
export const datasetKey = (
  stage: DatasetStage,
  place: DatasetPlace & { uploadId: string },
  extension = 'upload',
): string => `${datasetFolder(stage, place)}${place.uploadId}/data.${extension}`

/** The upload of a dataset that a key is for. */
export interface UploadOfKey {
  accountId: string
  uploadId: string
}

/** Returns the upload whose file a client may PUT under this key; undefined for keys of other kinds. */
export function uploadOfKey(key: string): UploadOfKey | undefined {
  const [stage, accountId, , uploadId, ...rest] = key.split('/')
  const isUpload = stage === ('incoming' satisfies DatasetStage) && accountId && uploadId && rest.length === 1
  return isUpload ? { accountId, uploadId } : undefined
}

/** Returns the key of what is kept of a dataset's first rows, beside its file. */
export const previewKey = (objectKey: string): string => objectKey.replace(/[^/]*$/, 'preview.json')

/** Returns the account that owns the object; imports of operators have an owner of their own. */
export function accountOfKey(key: string): string {
  const [stage = '', accountId = ''] = key.split('/')
  return stage === 'imports' ? stage : accountId
}

/** A file that a node PUTs under a lease. */
export interface LeaseFile {
  kind: 'checkpoint' | 'artifact' | 'output'
  filename: string
  /**
   * Known once the node has sent it. The object store then accepts only these bytes under the key, so
   * the object never changes.
   */
  sha256?: string
}

/** The key of a lease's file below the folder of its task or job. Each attempt and content has its own. */
export const leaseFileKey = (attempt: number, { kind, filename, sha256 }: LeaseFile): string =>
  `${attempt}/${kind}/${sha256 === undefined ? '' : `sha256=${sha256}/`}${filename}`
