const MESSAGE = {
  type: 'object',
  required: ['role'],
  properties: { role: { type: 'string' }, content: {} },
}

/** The listing fields of an imported language model, which all language models here share. */
export const CHAT_LISTING = {
  input_schema: {
    type: 'object',
    required: ['messages'],
    properties: {
      messages: { type: 'array', minItems: 1, items: MESSAGE },
      max_tokens: { type: 'integer', minimum: 1 },
      temperature: { type: 'number', minimum: 0, maximum: 2 },
      top_p: { type: 'number', minimum: 0, maximum: 1 },
    },
  },
  output_schema: {
    type: 'object',
    required: ['choices'],
    properties: {
      choices: {
        type: 'array',
        minItems: 1,
        items: { type: 'object', required: ['message'], properties: { message: MESSAGE } },
      },
      usage: { type: 'object' },
    },
  },
  example_input: { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 16 },
  example_output: {
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello!' }, finish_reason: 'stop' }],
  },
}
