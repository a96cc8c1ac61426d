import Type from 'typebox'
import { DatasetQuery } from '../../../schemas/dataset.ts'
import { listDatasets } from '../../routes/builder/datasets/list-datasets.ts'
import { operationTool, READS } from '../operation-tool.ts'

const { status, limit, cursor } = DatasetQuery.properties

export const listDatasetsTool = operationTool({
  name: 'list_datasets',
  title: 'List datasets',
  description:
    'Lists the datasets of this account, newest first. Only datasets that are ready can be used for training.',
  operation: listDatasets,
  input: Type.Object({ status, limit, cursor }, { additionalProperties: false }),
  annotations: READS,
  inputsOf: (query) => ({ query }),
})
