import { ApiError } from '../../../../domain/errors.ts'
import type { LogsResponse, LogsRequest } from '../../../../schemas/nodes/link.ts'
import type { NodeLogEntry } from '../../../../schemas/nodes/node-logs.ts'
import { LinkError } from '../../../gateway/links/link-request.ts'
import type { Services } from '../../../services.ts'
import { orderNode } from './order-node.ts'

const TIMEOUT_MS = 5_000
/** Longer than any message or model key that a node sends. */
const MAX_LENGTH = 4_000

/** Reads a node's own logs over its link; throws a 409 if the node does not respond. */
export async function fetchNodeLogs(
  services: Pick<Services, 'links'>,
  nodeId: string,
  wanted: LogsRequest,
): Promise<NodeLogEntry[]> {
  const accountId = services.links.ownerOf(nodeId)
  if (accountId === undefined) {
    throw new ApiError(
      'conflict',
      'this node is not connected to this gateway, so its logs cannot be read over its link',
    )
  }
  try {
    const body = Buffer.from(JSON.stringify(wanted))
    const order = { order: 'lines' as const, accountId, body, deadlineMs: TIMEOUT_MS }
    return linesOf(await orderNode(services, nodeId, order), wanted.limit)
  } catch (err) {
    if (!(err instanceof LinkError)) throw err
    throw new ApiError('conflict', `the node did not return its logs: ${err.message}`, { cause: err })
  }
}

/** Parses a node's response. The node may send anything, so skip entries that are not valid lines. */
function linesOf(body: Buffer, limit: number): NodeLogEntry[] {
  const { lines } = (parsed(body) ?? {}) as Partial<LogsResponse>
  if (!Array.isArray(lines)) throw new LinkError('internal', 'its response contains no lines')
  return lines.slice(-limit).flatMap((line: Partial<NodeLogEntry> | null) => {
    const { at, message, model_key } = line ?? {}
    const time = new Date(typeof at === 'string' ? at : Number.NaN)
    if (typeof message !== 'string' || Number.isNaN(time.getTime())) return []
    return {
      at: time.toISOString(),
      message: message.slice(0, MAX_LENGTH),
      ...(typeof model_key === 'string' && { model_key: model_key.slice(0, MAX_LENGTH) }),
    }
  })
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}
