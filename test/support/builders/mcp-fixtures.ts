import { setTimeout as sleep } from 'node:timers/promises'
import { type CallToolResult, MissingRequiredClientCapabilityError } from '@modelcontextprotocol/server'
import { progressOf } from '../../../api/mcp/call-deadline.ts'
import { OFFER, type Offer } from '../../../api/mcp/offer.ts'
import { message, type Prompt } from '../../../api/mcp/prompts/prompt.ts'
import type { ResourceKind } from '../../../api/mcp/resources/kind.ts'
import { ToolList } from '../../../api/mcp/tool-list.ts'
import type { JsonObject, Tool } from '../../../api/mcp/tool.ts'
import { BUILT_IN_TOOLS } from '../../../api/mcp/tools/index.ts'
import * as endpointChangeRepository from '../../../db/repositories/endpoints/changes.ts'
import { buildEndpoint } from './build-endpoint.ts'
import { FIXTURE_TASKS, TASK_TOOLS } from './mcp-task-fixtures.ts'

/** A PNG with one red pixel, and a silent WAV. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA='
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' }

const NO_ARGUMENTS = { type: 'object', properties: {} }

const fixture = (name: string, call: Tool['call'], inputSchema: JsonObject = NO_ARGUMENTS): Tool => ({
  name,
  title: name,
  description: 'A fixture of the conformance tests',
  inputSchema,
  annotations: {},
  call,
})

const returns = (...content: CallToolResult['content']) => Promise.resolve({ content })
const text = (words: string) => ({ type: 'text' as const, text: words })

/** The schema that must be passed through unchanged. */
const SCHEMA_2020_12 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema; no code awaits a schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

const TOOLS: readonly Tool[] = [
  fixture('test_simple_text', () => returns(text('This is a simple text response for testing.'))),
  fixture('test_image_content', () => returns(image)),
  fixture('test_audio_content', () => returns({ type: 'audio', data: WAV, mimeType: 'audio/wav' })),
  fixture('test_embedded_resource', () =>
    returns({
      type: 'resource',
      resource: {
        uri: 'test://embedded-resource',
        mimeType: 'text/plain',
        text: 'This is an embedded resource content.',
      },
    }),
  ),
  fixture('test_multiple_content_types', () =>
    returns(text('Multiple content types test:'), image, {
      type: 'resource',
      resource: {
        uri: 'test://mixed-content-resource',
        mimeType: 'application/json',
        text: '{"test":"data","value":123}',
      },
    }),
  ),
  fixture('test_error_handling', () =>
    Promise.resolve({
      isError: true,
      content: [text('This tool intentionally returns an error for testing')],
    }),
  ),
  fixture('test_tool_with_progress', async (_args, { mcp }) => {
    const progress = progressOf(mcp)
    for (const done of [0, 50, 100]) {
      await progress?.(done, `${done} %`, 100)
      await sleep(50)
    }
    return { content: [text('done')] }
  }),
  fixture('json_schema_2020_12_tool', () => returns(text('ok')), SCHEMA_2020_12),
  fixture('test_missing_capability', () => {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } })
  }),
  fixture('test_logging_tool', () => returns(text('ok'))),
  fixture('test_streaming_elicitation', () => returns(text('ok'))),
  fixture('test_trigger_tool_change', async (_args, { caller, services: { db } }) => {
    const { id } = await buildEndpoint(db, caller.accountId)
    await db.transaction().execute((trx) => endpointChangeRepository.noteEndpointChange(trx, [id]))
    return { content: [text('the tools of the account have changed')] }
  }),
  ...TASK_TOOLS,
]

const RESOURCES: ResourceKind = {
  template: {
    uriTemplate: 'test://template/{id}/data',
    name: 'template',
    description: 'A fixture of the conformance tests',
    mimeType: 'application/json',
  },
  recent: () =>
    Promise.resolve([
      { uri: 'test://static-text', name: 'text', description: 'A text', mimeType: 'text/plain' },
      { uri: 'test://static-binary', name: 'binary', description: 'An image', mimeType: 'image/png' },
    ]),
  read(uri) {
    if (uri === 'test://static-text') {
      const words = 'This is the content of the static text resource.'
      return Promise.resolve([{ uri, mimeType: 'text/plain', text: words }])
    }
    if (uri === 'test://static-binary') return Promise.resolve([{ uri, mimeType: 'image/png', blob: PNG }])
    const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? []
    const data = id && JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` })
    return Promise.resolve(data ? [{ uri, mimeType: 'application/json', text: data }] : undefined)
  },
}

const described = { description: 'A fixture of the conformance tests' }
const required = (name: string) => ({ name, description: name, required: true })

const PROMPTS: readonly Prompt[] = [
  { name: 'test_simple_prompt', ...described, get: () => message('This is a simple prompt for testing.') },
  {
    name: 'test_prompt_with_arguments',
    ...described,
    arguments: [required('arg1'), required('arg2')],
    get: ({ arg1, arg2 }) => message(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`),
  },
  {
    name: 'test_prompt_with_embedded_resource',
    ...described,
    arguments: [required('resourceUri')],
    get: ({ resourceUri: uri = '' }) => {
      const resource = { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' }
      return {
        messages: [
          { role: 'user', content: { type: 'resource', resource } },
          { role: 'user', content: text('Please process the embedded resource above.') },
        ],
      }
    },
  },
  {
    name: 'test_prompt_with_image',
    ...described,
    get: () => ({
      messages: [
        { role: 'user', content: image },
        { role: 'user', content: text('Please analyze the image above.') },
      ],
    }),
  },
]

const tools = ToolList.of([...BUILT_IN_TOOLS, ...TOOLS])

/** The gateway's offer plus the fixtures that the conformance tests call by name. */
export const OFFER_WITH_FIXTURES: Offer = {
  ...OFFER,
  async toolsOf(on) {
    // Read the account's tools, so that changes to them are noticed.
    await OFFER.toolsOf(on)
    return tools
  },
  taskKinds: [...OFFER.taskKinds, FIXTURE_TASKS],
  resources: [...OFFER.resources, RESOURCES],
  prompts: [...OFFER.prompts, ...PROMPTS],
}
