import Type from 'typebox'
import { RecallMemory } from '../../../schemas/memory.ts'
import { recallMemory } from '../../routes/builder/memory/recall-memory.ts'
import { operationTool, READS } from '../operation-tool.ts'

const { query, limit } = RecallMemory.properties

export const recallTool = operationTool({
  name: 'recall',
  title: 'Recall notes',
  description:
    'Returns the notes of this account that are most similar to a text, or the newest ones if no embedding model is configured; ordered_by says which.',
  operation: recallMemory,
  input: Type.Object({ query, limit }, { additionalProperties: false }),
  annotations: READS,
  inputsOf: (body) => ({ body }),
})
