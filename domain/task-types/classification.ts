import type { TaskType } from './task-type.ts'
import { SCORES, TEXT_OR_TEXTS, TRUNCATE, TRUNCATED, USAGE } from './texts.ts'

const VERDICT = { label: { type: ['string', 'number', 'boolean'] }, scores: SCORES }

/** Text classification. Trained table classifiers have their own schemas. */
export const classification: TaskType = {
  kind: 'specialist',
  category: 'nlp',
  input_schema: {
    type: 'object',
    required: ['text'],
    properties: { text: TEXT_OR_TEXTS, truncate: TRUNCATE },
  },
  output_schema: {
    type: 'object',
    anyOf: [{ required: ['label', 'scores'] }, { required: ['results'] }],
    properties: {
      ...VERDICT,
      results: {
        type: 'array',
        description: 'The classes of the texts, in input order.',
        items: { type: 'object', required: ['label', 'scores'], properties: VERDICT },
      },
      usage: USAGE,
      truncated: TRUNCATED,
    },
  },
  example_input: { text: 'I like it.' },
  example_output: { label: 'positive', scores: { negative: 0.1, positive: 0.9 } },
  files: [],
  namesModel: true,
}
