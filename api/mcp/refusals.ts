import type { IncomingHttpHeaders } from 'node:http'
import { ProtocolErrorCode, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server'
import { PROTOCOL_VERSION } from '../../schemas/tool.ts'
import { claimedRevision, type ClientMessage } from './message.ts'
import { faultOfParams } from './params.ts'

/** The revisions that are served, newest first. */
const REVISIONS: readonly string[] = [PROTOCOL_VERSION, ...SUPPORTED_PROTOCOL_VERSIONS]
/** The code of the earlier revisions for a header that names an unknown one. */
const REFUSED = -32_000

/** A response with an error of JSON-RPC. */
export interface Refusal {
  readonly status: number
  readonly body: {
    readonly jsonrpc: '2.0'
    readonly id: string | number | null
    readonly error: { readonly code: number; readonly message: string; readonly data?: object }
  }
}

/** Returns the answer to a request whose revision or parameters are wrong, in sentences for people. */
export function refusalOf(message: ClientMessage, headers: IncomingHttpHeaders): Refusal | undefined {
  const { id, method, params } = message
  const revision = headers['mcp-protocol-version']
  const claimed = claimedRevision(message)
  if (typeof revision === 'string' && !REVISIONS.includes(revision)) {
    if (claimed === revision) return unknownRevision(message, revision, true)
    // A handshake settles the revision itself.
    if (claimed === undefined && method !== 'initialize') return unknownRevision(message, revision, false)
  }
  // The latest revision has no handshake, which is what the protocol's server says then.
  const isUnknown = method === 'initialize' && claimed !== undefined
  const fault = id === undefined || isUnknown ? undefined : faultOfParams(method, params)
  if (id === undefined || fault === undefined) return undefined
  const error = { code: ProtocolErrorCode.InvalidParams, message: fault }
  return { status: 200, body: { jsonrpc: '2.0', id, error } }
}

/** A message of the latest revision names its own revision beside the header, and both eras have a code of their own. */
function unknownRevision({ id }: ClientMessage, requested: string, isClaimed: boolean): Refusal {
  const message = `Unsupported protocol version: ${requested} (supported versions: ${REVISIONS.join(', ')})`
  if (!isClaimed)
    return { status: 400, body: { jsonrpc: '2.0', id: null, error: { code: REFUSED, message } } }
  // The list has the revisions of `server/discover`, which are not those of a handshake.
  const data = { supported: [PROTOCOL_VERSION], requested }
  const error = { code: ProtocolErrorCode.UnsupportedProtocolVersion, message, data }
  return { status: 400, body: { jsonrpc: '2.0', id: id ?? null, error } }
}
