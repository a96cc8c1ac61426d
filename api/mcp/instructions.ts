import type { AccountCaller } from '../http/caller.ts'
import { mayUse } from '../manifest/tools-of.ts'

/** The jobs that an agent can do here, each with the tools that it needs. */
const WAYS: readonly { tools: readonly string[]; text: string }[] = [
  {
    tools: ['list_endpoints', 'get_endpoint', 'run_inference'],
    text: 'To call a model: list_endpoints, get_endpoint for the schema of its input, then run_inference.',
  },
  {
    tools: [
      'list_trainable_models',
      'get_model_schema',
      'create_dataset',
      'create_training_run',
      'get_training_run',
      'register_for_inference',
      'run_inference',
    ],
    text: 'To train one: list_trainable_models and get_model_schema; create_dataset, whose result says how its file is uploaded over HTTP; create_training_run; get_training_run until its status is completed; register_for_inference; run_inference.',
  },
]

const FIRST = 'Hearth trains models and runs inference on them.'
const LIMITED = 'This key is limited to the listed tools.'
const LAST =
  'A call returns within 45 seconds. Longer work continues, and the result says how to wait for it.'

/** Returns the instructions for agents, which name only tools that the key may use. */
export function instructionsFor(caller: Pick<AccountCaller, 'tools'>): string {
  const ways = WAYS.filter(({ tools }) => tools.every((slug) => mayUse(caller, { slug })))
  return [FIRST, ...(caller.tools ? [LIMITED] : []), ...ways.map(({ text }) => text), LAST].join('\n')
}
