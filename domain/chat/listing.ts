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

const OBJECT = { type: 'object' }

/** The listing fields of any other imported model: all that is known is that input and output are objects. */
const PLAIN_LISTING = {
  input_schema: OBJECT,
  output_schema: OBJECT,
  example_input: { input: 'Hello' },
  example_output: {},
}

/** Returns the listing of an imported model, by whether it answers chats. */
export const importedListing = (answersChats: boolean) => (answersChats ? CHAT_LISTING : PLAIN_LISTING)
