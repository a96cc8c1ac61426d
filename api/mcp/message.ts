/** The parts of a client's message that we read before the protocol's server validates it. */
export interface ClientMessage {
  /** Undefined for notifications, which get no response. */
  readonly id: string | number | undefined
  readonly method: string
  readonly params: unknown
}

/** Reads a body; undefined if it isn't a message with a method. */
export function readMessage(body: unknown): ClientMessage | undefined {
  if (typeof body !== 'object' || body === null || !('method' in body)) return undefined
  const { id, method, params } = body as Record<string, unknown>
  if (typeof method !== 'string') return undefined
  return { id: typeof id === 'string' || typeof id === 'number' ? id : undefined, method, params }
}

/** Removes a null `params` and null members in it: clients in several languages send null for absent values. */
export function removeNullParams(body: unknown): void {
  const message = body as { params?: unknown } | null
  if (member(message, 'params') === null) delete message?.params
  const params = member(message, 'params') as Record<string, unknown> | undefined
  for (const name of Object.keys(params ?? {})) if (params?.[name] === null) delete params[name]
}

const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined

/** Returns the revision that a message names in its body, as messages of revision 2026-07-28 do. */
export const claimedRevision = ({ params }: ClientMessage): unknown =>
  member(member(params, '_meta'), 'io.modelcontextprotocol/protocolVersion')

const MAX_LENGTH = 100

/** Returns a message's method and the tool that it calls, for the log; never its arguments. */
export function loggedCall(body: unknown): { rpcMethod: string; tool?: string } | undefined {
  const message = readMessage(body)
  if (!message) return undefined
  const { method, params } = message
  const name = method === 'tools/call' ? member(params, 'name') : undefined
  return {
    rpcMethod: method.slice(0, MAX_LENGTH),
    ...(typeof name === 'string' && { tool: name.slice(0, MAX_LENGTH) }),
  }
}
