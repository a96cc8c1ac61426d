/** Where the files of datasets are: as uploaded, and once they are the dataset's content. */
export type DatasetStage = 'incoming' | 'datasets'

interface DatasetPlace {
  accountId: string
  datasetId: string
}

/** Where a gateway keeps what is PUT under a lease until it has seen that it still may be. */
export const INCOMING_PUTS = 'incoming/puts/'

/** A file of a model that an operator imports. */
export const importKey = (versionId: string, path: string): string => `imports/${versionId}/${path}`

/** Everything of one dataset at one stage. */
export const datasetFolder = (stage: DatasetStage, { accountId, datasetId }: DatasetPlace): string =>
  `${stage}/${accountId}/${datasetId}/`

/** The file of one upload. A client may write at `incoming` while its signed URL lives; nobody may at `datasets`. */
export const datasetKey = (
  stage: DatasetStage,
  place: DatasetPlace & { uploadId: string },
  extension = 'upload',
): string => `${datasetFolder(stage, place)}${place.uploadId}/data.${extension}`

/** Whose object a key names; what operators import has an owner of its own. */
export function accountOfKey(key: string): string {
  const [stage = '', accountId = ''] = key.split('/')
  return stage === 'imports' ? stage : accountId
}

/** A file that a node PUTs under a lease. */
export interface LeaseFile {
  kind: 'checkpoint' | 'artifact' | 'output'
  filename: string
  /** Once it is known: the object store takes nothing else under this key, so what lies there never changes. */
  sha256?: string
}

/** The place of such a file below the folder of its task or job: one of its own for each attempt and content. */
export const leaseFileKey = (attempt: number, { kind, filename, sha256 }: LeaseFile): string =>
  `${attempt}/${kind}/${sha256 === undefined ? '' : `sha256=${sha256}/`}${filename}`
