import type { Dataset } from '../../schemas/dataset.ts'
import type { Operations } from '../operations.ts'
import type { Transport } from '../transport.ts'
import { uploadFile, type UploadRequest } from '../upload/upload-file.ts'
import { datasetOperations } from './dataset-operations.ts'

/** Datasets and their files. */
export function datasets(on: Operations, transport: Transport) {
  const operations = datasetOperations(on)
  return {
    ...operations,
    /** Uploads a file of any size and returns its dataset once the platform has read it. */
    upload: (request: UploadRequest): Promise<Dataset> => uploadFile(operations, transport, request),
  }
}
