import type { Static } from 'typebox'
import type {
  CommittedUpload,
  CreateDataset,
  Dataset,
  DatasetList,
  DatasetQuery,
  DatasetRows,
  DatasetRowsQuery,
  DatasetSummary,
  InitUpload,
  UploadedDataset,
  UploadFields,
  UploadSession,
} from '../../schemas/dataset.ts'
import type { FormFile, Operations } from '../operations.ts'

type DatasetId = [dataset_id: string]

/** The individual operations on datasets and uploads. */
export function datasetOperations(on: Operations) {
  return {
    create: on.send<[], Static<typeof CreateDataset>, Dataset>({
      id: 'createDataset',
      method: 'POST',
      path: '/datasets',
      idempotent: true,
    }),
    list: on.list<[], Static<typeof DatasetQuery>, Static<typeof DatasetList>, 'datasets'>({
      id: 'listDatasets',
      method: 'GET',
      path: '/datasets',
      items: 'datasets',
    }),
    get: on.call<DatasetId, Dataset>({
      id: 'getDataset',
      method: 'GET',
      path: '/datasets/{dataset_id}',
    }),
    /** Returns the first rows. */
    rows: on.query<DatasetId, Static<typeof DatasetRowsQuery>, Static<typeof DatasetRows>>({
      id: 'getDatasetRows',
      method: 'GET',
      path: '/datasets/{dataset_id}/rows',
    }),
    /** Returns statistics of the first rows, column by column. */
    profile: on.call<DatasetId, Static<typeof DatasetSummary>>({
      id: 'getDatasetProfile',
      method: 'GET',
      path: '/datasets/{dataset_id}/profile',
    }),
    delete: on.call<DatasetId, void>({
      id: 'deleteDataset',
      method: 'DELETE',
      path: '/datasets/{dataset_id}',
    }),
    /** Creates a dataset from a file of at most 100 MB in one request, which cannot be resumed. */
    uploadForm: on.form<[], UploadFields & FormFile, Static<typeof UploadedDataset>>({
      id: 'uploadDataset',
      method: 'POST',
      path: '/datasets/upload',
    }),
    initUpload: on.send<DatasetId, Static<typeof InitUpload>, Static<typeof UploadSession>>({
      id: 'initUpload',
      method: 'POST',
      path: '/datasets/{dataset_id}/uploads/init',
      // An unused session expires.
      repeatable: true,
    }),
    commitUpload: on.call<[dataset_id: string, upload_id: string], Static<typeof CommittedUpload>>({
      id: 'commitUpload',
      method: 'POST',
      path: '/datasets/{dataset_id}/uploads/{upload_id}/commit',
      repeatable: true,
    }),
  }
}

export type DatasetOperations = ReturnType<typeof datasetOperations>
