import Type from 'typebox'
import { CreateDataset, Dataset, StorageFormat } from '../../../schemas/dataset.ts'
import { createDataset } from '../../routes/builder/datasets/create-dataset.ts'
import { CREATES, operationTool } from '../operation-tool.ts'
import type { JsonObject } from '../tool.ts'

const { dataset_name, description, visibility } = CreateDataset.properties

const Upload = Type.Object({
  init_url: Type.String(),
  commit_url: Type.String(),
  steps: Type.Array(Type.String()),
})

export const createDatasetTool = operationTool({
  name: 'create_dataset',
  title: 'Create a dataset',
  description:
    'Creates a dataset without its file. The result says how to upload the file. Uploads work only over HTTP, not through a tool. storage_format defaults to csv.',
  operation: createDataset,
  input: Type.Object(
    {
      name: dataset_name,
      description,
      storage_format: Type.Optional({ ...StorageFormat, default: 'csv' }),
      visibility,
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ ...Dataset.properties, upload: Upload }),
  annotations: CREATES,
  inputsOf: ({ name, storage_format = 'csv', ...rest }) => ({
    body: { ...rest, dataset_name: name, storage_format },
  }),
  argumentNames: { dataset_name: 'name' },
  present: (dataset: Dataset, _args, { services: { publicUrl } }) => ({
    ...dataset,
    upload: uploadOf(dataset.dataset_id, publicUrl),
  }),
})

function uploadOf(datasetId: string, baseUrl: string): JsonObject {
  const uploads = `${baseUrl}/api/builder/v1/datasets/${datasetId}/uploads`
  const init_url = `${uploads}/init`
  const commit_url = `${uploads}/{upload_id}/commit`
  return {
    init_url,
    commit_url,
    steps: [
      `POST ${init_url} with the API key in X-API-Key and the JSON body {"filename": "...", "content_type": "text/csv"}; the response contains upload_id and signed_url`,
      'PUT the file to signed_url with the same Content-Type',
      `POST ${commit_url} with the API key; the dataset is ready once its status is "ready"`,
    ],
  }
}
