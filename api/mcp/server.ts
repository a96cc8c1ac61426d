import { Server } from '@modelcontextprotocol/server'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv'
import { VERSION } from '../../platform/version.ts'
import { serveCompletions } from './completions.ts'
import type { Offer } from './offer.ts'
import { servePrompts } from './prompts/serve.ts'
import { serveResources } from './resources/serve.ts'
import { TASKS_EXTENSION } from './tasks/declared.ts'
import { serveTasks } from './tasks/serve.ts'
import type { RequestOfAccount } from './tool.ts'
import { serveTools } from './tools/serve.ts'

const INFO = { name: 'hearth', title: 'Hearth', version: VERSION }

const INSTRUCTIONS = `Hearth trains models and asks them.
To ask a model: list_endpoints, get_endpoint for the schema of its input, then run_inference.
To train one: list_trainable_models and get_model_schema; create_dataset, whose result says how its file is uploaded over HTTP; create_training_run; get_training_run until its status is completed; register_for_inference; run_inference.
A call answers within 45 seconds. What takes longer goes on, and the answer says how to wait for it.`

const CAPABILITIES = {
  tools: { listChanged: true },
  resources: {},
  prompts: {},
  completions: {},
  extensions: { [TASKS_EXTENSION]: {} },
}

const validator = new AjvJsonSchemaValidator()

/** The methods that are served, by the beginning of their names. */
const METHODS: Readonly<Record<string, (server: Server, on: RequestOfAccount, offer: Offer) => void>> = {
  tools: serveTools,
  tasks: serveTasks,
  resources: serveResources,
  prompts: servePrompts,
  completion: serveCompletions,
}

/** Returns the protocol's server for one request: it keeps nothing for the next, and serves what the request asks for. */
export function serverFor(on: RequestOfAccount, offer: Offer): Server {
  const server = new Server(INFO, {
    capabilities: CAPABILITIES,
    instructions: INSTRUCTIONS,
    jsonSchemaValidator: validator,
  })
  // A key that is limited to tools reads nothing else of its account.
  const offered = on.caller.tools ? { ...offer, resources: [], prompts: [] } : offer
  METHODS[areaOf(on.request.body)]?.(server, on, offered)
  return server
}

/** Returns the beginning of the method of a message. */
function areaOf(body: unknown): string {
  const { method } = (body ?? {}) as { method?: unknown }
  return typeof method === 'string' ? (method.split('/')[0] ?? '') : ''
}
