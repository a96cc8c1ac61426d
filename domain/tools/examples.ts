import type { ToolManifest } from '../../schemas/tool.ts'
import { isChatCapable } from '../chat/chat.ts'

type JsonObject = Record<string, unknown>
type Example = ToolManifest['examples'][number]

interface ExampleSource {
  source: 'catalog' | 'trained'
  task_type: string
  input_schema: JsonObject
  example_input: JsonObject
  example_output: JsonObject
  examples: readonly Example[]
}

/** Returns all examples of an endpoint: its own, derived ones, and those that its owner added. */
export function examplesOf(endpoint: ExampleSource): Example[] {
  const { example_input: input, example_output: output, examples } = endpoint
  const example = { name: 'example', description: 'The example of the endpoint.', input, output }
  return [example, ...chatExamples(endpoint), ...rowExamples(endpoint), ...examples]
}

/** Every language model accepts this chat; as in the first example, the text of the answer depends on the model. */
const INSTRUCTED_CHAT = {
  name: 'instructed',
  description: 'A chat with an instruction and a limit; the text of the answer depends on the model.',
  input: {
    messages: [
      { role: 'system', content: 'Answer in one word.' },
      { role: 'user', content: 'What is the capital of France?' },
    ],
    max_tokens: 8,
    temperature: 0,
  },
  output: {
    choices: [{ index: 0, message: { role: 'assistant', content: 'Paris' }, finish_reason: 'stop' }],
  },
}

const CHAT_PROPERTIES = ['messages', 'max_tokens', 'temperature']

function chatExamples({ task_type, input_schema }: ExampleSource): Example[] {
  const { properties, required } = input_schema
  if (!isChatCapable(task_type) || typeof properties !== 'object' || properties === null) return []
  const isUsual =
    CHAT_PROPERTIES.every((name) => name in properties) &&
    Array.isArray(required) &&
    required.every((name) => name === 'messages')
  return isUsual ? [INSTRUCTED_CHAT] : []
}

/** A trained model that predicts row by row returns the same prediction for the first row, alone or among others. */
function rowExamples({ source, example_input, example_output }: ExampleSource): Example[] {
  const { instances, ...more } = example_input
  const { predictions, ...others } = example_output
  const isByRow =
    source === 'trained' &&
    Array.isArray(instances) &&
    Array.isArray(predictions) &&
    instances.length > 1 &&
    instances.length === predictions.length &&
    Object.keys(more).length + Object.keys(others).length === 0
  if (!isByRow) return []
  return [
    {
      name: 'one row',
      description: 'The first row of the example alone.',
      input: { instances: instances.slice(0, 1) },
      output: { predictions: predictions.slice(0, 1) },
    },
  ]
}
