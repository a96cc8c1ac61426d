import { STATUS_CODES } from 'node:http'
import type { TSchema } from 'typebox'
import { VERSION } from '../../../platform/version.ts'
import { ErrorBody, OpenAiErrorBody, ValidationErrorBody } from '../../../schemas/common.ts'
import { ERROR_STATUS, type ErrorCode } from '../../../schemas/errors.ts'
import { McpErrorBody } from '../../../schemas/mcp.ts'
import { roleOf } from '../auth.ts'
import type { Auth } from '../caller.ts'
import type { Family } from '../family.ts'
import type { AnyRoute } from '../route.ts'
import { errorCodesOf } from './implied-errors.ts'
import { Components } from './openapi-schemas.ts'

type Json = Record<string, unknown>

const SECURITY_SCHEMES = {
  apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: "An account's API key." },
  bearer: { type: 'http', scheme: 'bearer', description: 'The same API key as a bearer token.' },
  operationsKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'The operations key.' },
  nodeSignature: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Node-Signature',
    description: 'Ed25519 over the request, with X-Account-ID, X-Node-ID and X-Node-Timestamp.',
  },
  evaluatorToken: { type: 'apiKey', in: 'header', name: 'X-Cohort-Evaluator-Token' },
  joinToken: { type: 'http', scheme: 'bearer', description: 'A one-time token from an operator.' },
}

const SECURITY: Record<Auth, readonly Json[]> = {
  none: [],
  'api-key': [{ apiKey: [] }, { bearer: [] }],
  cohort: [{ apiKey: [] }, { bearer: [] }],
  'operations-key': [{ operationsKey: [] }],
  'node-signature': [{ nodeSignature: [] }],
  'evaluator-token': [{ evaluatorToken: [] }],
  'join-token': [{ joinToken: [] }],
}

const header = (name: string, required: boolean, schema: Json, description: string): Json => ({
  name,
  in: 'header',
  required,
  schema,
  description,
})
const TEXT = { type: 'string' }
const ACCOUNT_HEADER = header('X-Account-ID', true, TEXT, 'The account that the request is for.')

const HEADERS: Partial<Record<Auth, readonly Json[]>> = {
  'api-key': [
    header(
      'X-Account-ID',
      false,
      { type: 'string', format: 'uuid' },
      "If present, must be the key's account.",
    ),
  ],
  cohort: [ACCOUNT_HEADER],
  'node-signature': [
    ACCOUNT_HEADER,
    header('X-Node-ID', true, TEXT, 'The node that signed the request.'),
    header('X-Node-Timestamp', true, { type: 'integer' }, 'Milliseconds since 1970; at most 300 s off.'),
  ],
}

/** Builds one OpenAPI 3.1 document for all families, from the route declarations alone. */
export function toOpenApi(
  families: readonly Family[],
  { features = [] }: { features?: readonly string[] } = {},
): Json {
  const components = new Components()
  const paths: Record<string, Json> = {}
  for (const family of families) {
    for (const route of family.routes) {
      if (route.internal || (route.preview && !features.includes(route.preview))) continue
      const item = (paths[family.prefix + route.path] ??= {})
      item[route.method.toLowerCase()] = describe(family, route, components)
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Hearth',
      // The contract fixes the interface's version (9.1); the product's own version is an extension next to it.
      version: '0.1.0',
      'x-hearth-version': VERSION,
      description: 'Datasets, training, inference on a pool of nodes, and their operation.',
    },
    servers: [{ url: '/' }],
    paths,
    components: { schemas: components.schemas, securitySchemes: SECURITY_SCHEMES },
  }
}

function describe(family: Family, route: AnyRoute, components: Components): Json {
  const parameters = parametersOf(route, components)
  const requestBody = requestBodyOf(route, components)
  return {
    operationId: route.operationId,
    summary: route.summary,
    tags: [tagOf(family, route)],
    security: SECURITY[route.auth],
    ...(route.auth === 'api-key' && { 'x-role': roleOf(route) }),
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody && { requestBody }),
    responses: { ...goodAnswers(route, components), ...errorAnswers(family, route, components) },
  }
}

/** Returns the resource: the first part of the path that is not a parameter. */
function tagOf(family: Family, { path }: AnyRoute): string {
  const [, first = ''] = path.split('/')
  return family.name === 'openai' ? 'openai' : (first.split(':')[0] ?? first)
}

function parametersOf(route: AnyRoute, components: Components): Json[] {
  const { query, headers, auth, idempotent, ifMatch, etag } = route
  return [
    ...pathParameters(route, components),
    ...fieldsOf(query, 'query', components),
    ...fieldsOf(headers, 'header', components),
    ...(HEADERS[auth] ?? []),
    ...(idempotent
      ? [
          header(
            'Idempotency-Key',
            false,
            { type: 'string', format: 'uuid' },
            'Repeats with the same key return the first response for 24 hours.',
          ),
        ]
      : []),
    ...(ifMatch ? [header('If-Match', true, TEXT, 'The ETag of the version that you read.')] : []),
    ...(etag ? [header('If-None-Match', false, TEXT, 'Returns 304 while this is the current ETag.')] : []),
  ]
}

function pathParameters({ path, params }: AnyRoute, components: Components): Json[] {
  const described = (params as { properties?: Json } | undefined)?.properties ?? {}
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: components.place(described[name] ?? TEXT),
  }))
}

function fieldsOf(schema: TSchema | undefined, location: 'query' | 'header', components: Components): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    properties?: Record<string, Json>
    required?: string[]
  }
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: location,
    required: required.includes(name),
    schema: components.place(property),
    ...(typeof property.description === 'string' && { description: property.description }),
  }))
}

const BINARY = { type: 'string', format: 'binary' }

function requestBodyOf({ method, body, stream }: AnyRoute, components: Components): Json | undefined {
  if (body) {
    const { required: fields = [] } = body as { required?: string[] }
    const required = method === 'PUT' || fields.length > 0
    return { required, content: { 'application/json': { schema: components.place(body) } } }
  }
  if (!stream) return undefined
  const schema = stream.schema ? components.place(stream.schema) : BINARY
  const types = stream.contentTypes.map((type) => (type === '*' ? 'application/octet-stream' : type))
  return { required: true, content: Object.fromEntries(types.map((type) => [type, { schema }])) }
}

const othersOf = (types: readonly string[] = []): Json =>
  Object.fromEntries(
    types.map((type) => [type, { schema: type.includes('charset') ? { type: 'string' } : BINARY }]),
  )

function goodAnswers({ success, also = {}, idempotent, etag }: AnyRoute, components: Components): Json {
  const headers = {
    'X-Request-Id': { schema: TEXT, description: 'Identifies this request in logs.' },
    ...(idempotent && {
      'Idempotency-Replayed': {
        schema: { type: 'string', enum: ['true'] },
        description: 'Present on repeated requests.',
      },
    }),
    ...(etag && { ETag: { schema: TEXT } }),
  }
  const answer = (status: number, schema: TSchema | null, contentType = 'application/json'): Json => ({
    description:
      success.status === status && success.description ? success.description : STATUS_CODES[status],
    headers,
    ...((schema || contentType !== 'application/json') && {
      content: {
        [contentType]: { schema: schema ? components.place(schema) : BINARY },
        ...(success.status === status && othersOf(success.otherTypes)),
      },
    }),
  })
  return {
    [success.status]: answer(success.status, success.schema ?? null, success.contentType),
    ...Object.fromEntries(
      Object.entries(also).map(([status, schema]) => [status, answer(Number(status), schema)]),
    ),
    ...(etag && { 304: { description: STATUS_CODES[304] } }),
  }
}

/** Builds one response per status; error codes that share a status are listed together. */
function errorAnswers(family: Family, route: AnyRoute, components: Components): Json {
  const byStatus = Map.groupBy(errorCodesOf(route), (code) => ERROR_STATUS[code])
  const good = new Set([route.success.status, ...Object.keys(route.also ?? {}).map(Number)])
  const answers = [...byStatus]
    .filter(([status]) => !good.has(status))
    .map(([status, codes]) => [status, errorAnswer(family, codes, components)])
  return Object.fromEntries(answers) as Json
}

function errorAnswer({ errors }: Family, codes: readonly ErrorCode[], components: Components): Json {
  const builder = codes.includes('validation_failed') ? ValidationErrorBody : ErrorBody
  const schema = components.place({ builder, openai: OpenAiErrorBody, mcp: McpErrorBody }[errors])
  return {
    description: codes.map((code) => `\`${code}\``).join(', '),
    content: { 'application/json': { schema } },
  }
}
