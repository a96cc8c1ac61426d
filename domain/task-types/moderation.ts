import type { TaskType } from './task-type.ts'
import { SCORES, TEXT_OR_TEXTS, TRUNCATE, TRUNCATED, USAGE } from './texts.ts'

const VERDICT = {
  flagged: { type: 'boolean', description: 'Whether any category applies.' },
  categories: { type: 'object', additionalProperties: { type: 'boolean' } },
  scores: SCORES,
}

export const moderation: TaskType = {
  kind: 'specialist',
  category: 'nlp',
  input_schema: {
    type: 'object',
    required: ['text'],
    properties: { text: TEXT_OR_TEXTS, truncate: TRUNCATE },
  },
  output_schema: {
    type: 'object',
    anyOf: [{ required: ['flagged', 'categories', 'scores'] }, { required: ['results'] }],
    properties: {
      ...VERDICT,
      results: {
        type: 'array',
        description: 'The verdicts on the texts, in input order.',
        items: { type: 'object', required: ['flagged', 'categories', 'scores'], properties: VERDICT },
      },
      usage: USAGE,
      truncated: TRUNCATED,
    },
  },
  example_input: { text: 'Hello' },
  example_output: { flagged: false, categories: { hate: false }, scores: { hate: 0.01 } },
  files: [],
  namesModel: true,
}
