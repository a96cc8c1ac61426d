import { commitUpload } from './commit-upload.ts'
import { createDataset } from './create-dataset.ts'
import { deleteDataset } from './delete-dataset.ts'
import { getDatasetProfile } from './get-dataset-profile.ts'
import { getDatasetRows } from './get-dataset-rows.ts'
import { getDataset } from './get-dataset.ts'
import { initUpload } from './init-upload.ts'
import { listDatasets } from './list-datasets.ts'
import { uploadDataset } from './upload-dataset.ts'

export const datasets = [
  uploadDataset,
  createDataset,
  initUpload,
  commitUpload,
  listDatasets,
  getDataset,
  getDatasetRows,
  getDatasetProfile,
  deleteDataset,
]
