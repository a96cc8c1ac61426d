import type { TaskType } from './task-type.ts'
import { TRUNCATE, TRUNCATED, USAGE } from './texts.ts'

const LANGUAGE =
  'A code that the model knows, for example `fra_Latn` or `fr`; models for a single language pair need none.'

export const translation: TaskType = {
  kind: 'specialist',
  category: 'nlp',
  input_schema: {
    type: 'object',
    required: ['text'],
    properties: {
      text: { type: 'string' },
      source_language: { type: 'string', description: LANGUAGE },
      target_language: { type: 'string', description: LANGUAGE },
      truncate: TRUNCATE,
    },
  },
  output_schema: {
    type: 'object',
    required: ['text'],
    properties: { text: { type: 'string' }, usage: USAGE, truncated: TRUNCATED },
  },
  example_input: { text: 'Hello' },
  example_output: { text: 'Bonjour', usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 } },
  files: [],
  namesModel: true,
}
