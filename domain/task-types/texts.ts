/** The longest list of texts in one request, as the model servers take it. */
const MAX_TEXTS = 2_048

const TEXT = { type: 'string' }

/** One text, or a list of them. */
export const TEXT_OR_TEXTS = {
  description: 'One text, or a list of them.',
  anyOf: [TEXT, { type: 'array', minItems: 1, maxItems: MAX_TEXTS, items: TEXT }],
}

export const TEXTS = { type: 'array', minItems: 1, maxItems: MAX_TEXTS, items: TEXT }

export const TRUNCATE = {
  type: 'boolean',
  default: true,
  description: 'Whether a text that is longer than the model takes is cut; false refuses it.',
}

export const TRUNCATED = { type: 'boolean', description: 'True when a text was cut.' }

export const USAGE = {
  type: 'object',
  required: ['prompt_tokens', 'total_tokens'],
  properties: {
    prompt_tokens: { type: 'integer', minimum: 0 },
    total_tokens: { type: 'integer', minimum: 0 },
  },
}

/** A number for each label. */
export const SCORES = {
  type: 'object',
  additionalProperties: { type: 'number', minimum: 0, maximum: 1 },
}
