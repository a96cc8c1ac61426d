import type { IncomingHttpHeaders } from 'node:http'
import { ProtocolErrorCode, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server'
import { PROTOCOL_VERSION } from '../../schemas/tool.ts'
import { claimedRevision, type ClientMessage } from './message.ts'
import { faultOfParams } from './params.ts'

/** The supported revisions, newest first. */
const REVISIONS: readonly string[] = [PROTOCOL_VERSION, ...SUPPORTED_PROTOCOL_VERSIONS]
/** The error code that earlier revisions use for a header with an unknown revision. */
const REFUSED = -32_000

/** A response with a JSON-RPC error. */
export interface Refusal {
  readonly status: number
  readonly body: {
    readonly jsonrpc: '2.0'
    readonly id: string | number | null
    readonly error: { readonly code: number; readonly message: string; readonly data?: object }
  }
}

/** Returns the error response to a request with a wrong revision or wrong parameters, with human-readable messages. */
export function refusalOf(message: ClientMessage, headers: IncomingHttpHeaders): Refusal | undefined {
  const { id, method, params } = message
  const revision = headers['mcp-protocol-version']
  const claimed = claimedRevision(message)
  if (typeof revision === 'string' && !REVISIONS.includes(revision)) {
    if (claimed === revision) return unknownRevision(message, revision, true)
    // The handshake itself negotiates the revision.
    if (claimed === undefined && method !== 'initialize') return unknownRevision(message, revision, false)
  }
  // The latest revision has no handshake; the protocol's server reports that.
  const isUnknown = method === 'initialize' && claimed !== undefined
  const fault = id === undefined || isUnknown ? undefined : faultOfParams(method, params)
  if (id === undefined || fault === undefined) return undefined
  const error = { code: ProtocolErrorCode.InvalidParams, message: fault }
  return { status: 200, body: { jsonrpc: '2.0', id, error } }
}

/** A message of the latest revision also names its revision in the body, and each era has its own error code. */
function unknownRevision({ id }: ClientMessage, requested: string, isClaimed: boolean): Refusal {
  const message = `Unsupported protocol version: ${requested} (supported versions: ${REVISIONS.join(', ')})`
  if (!isClaimed)
    return { status: 400, body: { jsonrpc: '2.0', id: null, error: { code: REFUSED, message } } }
  // `supported` lists the revisions of `server/discover`, which differ from those of a handshake.
  const data = { supported: [PROTOCOL_VERSION], requested }
  const error = { code: ProtocolErrorCode.UnsupportedProtocolVersion, message, data }
  return { status: 400, body: { jsonrpc: '2.0', id: id ?? null, error } }
}
