import type { TaskType } from './task-type.ts'
import { TEXTS, TRUNCATE, TRUNCATED, USAGE } from './texts.ts'

const SCORE = { type: 'number', minimum: 0, maximum: 1 }

export const rerank: TaskType = {
  kind: 'specialist',
  category: 'nlp',
  input_schema: {
    type: 'object',
    required: ['query', 'documents'],
    properties: {
      query: { type: 'string' },
      documents: TEXTS,
      top_n: {
        type: 'integer',
        minimum: 1,
        description: 'Also lists this many of the best documents in `results`.',
      },
      truncate: TRUNCATE,
    },
  },
  output_schema: {
    type: 'object',
    required: ['scores'],
    properties: {
      scores: { type: 'array', items: SCORE, description: 'One score per document, in input order.' },
      results: {
        type: 'array',
        items: {
          type: 'object',
          required: ['index', 'score'],
          properties: { index: { type: 'integer', minimum: 0 }, score: SCORE },
        },
      },
      usage: USAGE,
      truncated: TRUNCATED,
    },
  },
  example_input: {
    query: 'What is the capital of France?',
    documents: ['Paris is the capital of France.', 'Bread is made of flour.'],
  },
  example_output: { scores: [0.98, 0.02], usage: { prompt_tokens: 30, total_tokens: 30 } },
  files: [],
  namesModel: true,
}
