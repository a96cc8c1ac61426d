import Type from 'typebox'
import { Nullable, Vocabulary } from './common.ts'

const RequestId = Type.Union([Type.String(), Type.Number()])

/** The body of an error response from `/mcp`. For a rejected request, `data` has the usual code, details and id. */
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

/** The form of tool names in `tools/list`: slugs, or names that consist only of letters, digits, `_` and `-`. */
export const ToolNames = Vocabulary('slugs', 'safe')

export const McpQuery = Type.Object({
  names: Type.Optional({
    ...ToolNames,
    default: 'slugs',
    description: 'safe lists names of at most 64 letters, digits, "_" and "-", for clients that reject dots',
  }),
})

/** A JSON-RPC 2.0 message of the Model Context Protocol; the MCP server checks the protocol's own rules. */
export const McpMessage = Type.Unsafe<unknown>({
  $id: 'McpMessage',
  description: 'A JSON-RPC 2.0 message of the Model Context Protocol',
})

/**
 * The metadata of a protected resource (RFC 9728). Keys come from the operator, so it names no authorization server.
 */
export const ProtectedResource = Type.Object(
  {
    resource: Type.String(),
    resource_name: Type.String(),
    bearer_methods_supported: Type.Array(Type.String()),
    resource_documentation: Type.String(),
  },
  { $id: 'ProtectedResource' },
)
