/** The maximum number of texts that model servers accept in one request. */
const MAX_TEXTS = 2_048

const TEXT = { type: 'string' }

/** One text, or a list of them. */
export const TEXT_OR_TEXTS = {
  description: 'One text, or a list of texts.',
  anyOf: [TEXT, { type: 'array', minItems: 1, maxItems: MAX_TEXTS, items: TEXT }],
}

export const TEXTS = { type: 'array', minItems: 1, maxItems: MAX_TEXTS, items: TEXT }

export const TRUNCATE = {
  type: 'boolean',
  default: true,
  description: 'Whether to truncate a text that is too long for the model; false rejects it.',
}

export const TRUNCATED = { type: 'boolean', description: 'True when a text was truncated.' }

export const USAGE = {
  type: 'object',
  required: ['prompt_tokens', 'total_tokens'],
  properties: {
    prompt_tokens: { type: 'integer', minimum: 0 },
    total_tokens: { type: 'integer', minimum: 0 },
  },
}

/** One number per label. */
export const SCORES = {
  type: 'object',
  additionalProperties: { type: 'number', minimum: 0, maximum: 1 },
}
