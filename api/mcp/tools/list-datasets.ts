import Type from 'typebox'
import { DatasetQuery } from '../../../schemas/dataset.ts'
import { listDatasets } from '../../routes/builder/datasets/list-datasets.ts'
import { operationTool, READS } from '../operation-tool.ts'

const { status, limit, cursor } = DatasetQuery.properties

export const listDatasetsTool = operationTool({
  name: 'list_datasets',
  title: 'List datasets',
  description:
    'Lists the datasets of this account, newest first. Only those that are ready can be trained on.',
  operation: listDatasets,
  input: Type.Object({ status, limit, cursor }, { additionalProperties: false }),
  annotations: READS,
  inputsOf: (query) => ({ query }),
})
