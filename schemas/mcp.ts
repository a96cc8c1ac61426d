import Type from 'typebox'
import { Nullable, Vocabulary } from './common.ts'

const RequestId = Type.Union([Type.String(), Type.Number()])

/** The body of an error of `/mcp`. Refused requests have the code, details and id of every other error in `data`. */
export const McpErrorBody = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: Nullable(RequestId),
    error: Type.Object({
      code: Type.Integer(),
      message: Type.String(),
      data: Type.Optional(Type.Unknown()),
    }),
  },
  { $id: 'McpError' },
)

/** The form of the tools' names in `tools/list`: slugs, or names of letters, digits, `_` and `-` only. */
export const ToolNames = Vocabulary('slugs', 'safe')

export const McpQuery = Type.Object({
  names: Type.Optional({
    ...ToolNames,
    default: 'slugs',
    description:
      'safe lists names of letters, digits, "_" and "-" with at most 64 characters, for clients that refuse dots',
  }),
})

/** A JSON-RPC 2.0 message of the Model Context Protocol; its own rules are checked by the protocol's server. */
export const McpMessage = Type.Unsafe<unknown>({
  $id: 'McpMessage',
  description: 'A JSON-RPC 2.0 message of the Model Context Protocol',
})

/** The metadata of a protected resource (RFC 9728). Keys come from the operator, so no authorization server is named. */
export const ProtectedResource = Type.Object(
  {
    resource: Type.String(),
    resource_name: Type.String(),
    bearer_methods_supported: Type.Array(Type.String()),
    resource_documentation: Type.String(),
  },
  { $id: 'ProtectedResource' },
)
