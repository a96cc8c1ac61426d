import { Server } from '@modelcontextprotocol/server'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv'
import { VERSION } from '../../platform/version.ts'
import { serveCompletions } from './completions.ts'
import { instructionsFor } from './instructions.ts'
import { readMessage } from './message.ts'
import type { Offer } from './offer.ts'
import { servePrompts } from './prompts/serve.ts'
import { serveResources } from './resources/serve.ts'
import { TASKS_EXTENSION } from './tasks/declared.ts'
import { serveTasks } from './tasks/serve.ts'
import type { AccountRequestContext } from './tool.ts'
import { serveTools } from './tools/serve.ts'

const INFO = { name: 'hearth', title: 'Hearth', version: VERSION }

const CAPABILITIES = {
  tools: { listChanged: true },
  resources: {},
  prompts: {},
  completions: {},
  extensions: { [TASKS_EXTENSION]: {} },
}

const validator = new AjvJsonSchemaValidator()

/** The methods that we serve, by the prefix of their names. */
const METHODS: Readonly<Record<string, (server: Server, on: AccountRequestContext, offer: Offer) => void>> = {
  tools: serveTools,
  tasks: serveTasks,
  resources: serveResources,
  prompts: servePrompts,
  completion: serveCompletions,
}

/** Returns the protocol's server for one request. It is stateless and only serves what the request needs. */
export function serverFor(on: AccountRequestContext, offer: Offer): Server {
  const server = new Server(INFO, {
    capabilities: CAPABILITIES,
    instructions: instructionsFor(on.caller),
    jsonSchemaValidator: validator,
  })
  // A key limited to tools may not read anything else in its account.
  const offered = on.caller.tools ? { ...offer, resources: [], prompts: [] } : offer
  const [area = ''] = readMessage(on.request.body)?.method.split('/') ?? []
  METHODS[area]?.(server, on, offered)
  return server
}
