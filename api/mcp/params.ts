import Type, { type TSchema } from 'typebox'
import { ApiError, type Issue } from '../../domain/errors.ts'
import { type Check, jsonCheck } from '../http/validate.ts'

const Text = Type.String()
const Listing = Type.Object({ cursor: Type.Optional(Text) })

/** The parameters of methods that the platform reads. */
const PARAMS: Readonly<Record<string, TSchema>> = {
  initialize: Type.Object({
    protocolVersion: Text,
    capabilities: Type.Object({}),
    clientInfo: Type.Object({ name: Text, version: Text }),
  }),
  'tools/list': Listing,
  'tools/call': Type.Object({ name: Text, arguments: Type.Optional(Type.Object({})) }),
  'resources/list': Listing,
  'resources/templates/list': Listing,
  'resources/read': Type.Object({ uri: Text }),
  'prompts/list': Listing,
  'prompts/get': Type.Object({ name: Text, arguments: Type.Optional(Type.Record(Text, Text)) }),
  'completion/complete': Type.Object({
    ref: Type.Unsafe({
      type: 'object',
      required: ['type'],
      discriminator: { propertyName: 'type' },
      oneOf: [
        Type.Object({ type: Type.Literal('ref/prompt'), name: Text }),
        Type.Object({ type: Type.Literal('ref/resource'), uri: Text }),
      ],
    }),
    argument: Type.Object({ name: Text, value: Text }),
  }),
}

const checks = new Map<string, Check>(
  Object.entries(PARAMS).map(([method, params]) => [method, jsonCheck('body', params)]),
)

/**
 * Describes the first error in a request's parameters: the field, and what it must be. Without this, the SDK's server
 * would respond with its validator's internal message.
 */
export function faultOfParams(method: string, params: unknown = {}): string | undefined {
  try {
    checks.get(method)?.(params, true)
    return undefined
  } catch (err) {
    if (!(err instanceof ApiError)) throw err
    const [first] = err.details['issues'] as readonly Issue[]
    const path = ['params', ...(first?.loc.slice(1) ?? [])].join('.')
    return `Invalid params for ${method}: ${path}: ${first?.msg ?? 'not valid'}.`
  }
}
