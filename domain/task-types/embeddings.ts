import type { TaskType } from './task-type.ts'
import { TEXT_OR_TEXTS, TRUNCATE, TRUNCATED, USAGE } from './texts.ts'

const VECTOR = { type: 'array', minItems: 1, items: { type: 'number' } }

export const embeddings: TaskType = {
  kind: 'specialist',
  category: 'nlp',
  input_schema: {
    type: 'object',
    required: ['text'],
    properties: {
      text: TEXT_OR_TEXTS,
      dimensions: {
        type: 'integer',
        minimum: 1,
        description: 'The vector length, if the model supports lengths other than its default.',
      },
      prompt_name: { type: 'string', description: 'The name of a prompt that the model defines.' },
      truncate: TRUNCATE,
    },
  },
  output_schema: {
    type: 'object',
    anyOf: [{ required: ['embedding'] }, { required: ['embeddings'] }],
    properties: {
      embedding: { ...VECTOR, description: 'The vector of one text.' },
      embeddings: { type: 'array', items: VECTOR, description: 'The vectors of the texts, in input order.' },
      usage: USAGE,
      truncated: TRUNCATED,
    },
  },
  example_input: { text: 'Hello' },
  example_output: { embedding: [0.6, -0.8], usage: { prompt_tokens: 3, total_tokens: 3 } },
  files: [],
  namesModel: true,
}
