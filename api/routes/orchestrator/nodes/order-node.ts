import type { LinkRequest } from '../../../gateway/links/link-request.ts'
import type { Services } from '../../../services.ts'

interface NodeOrder {
  order: NonNullable<LinkRequest['order']>
  /** The node's owner. */
  accountId: string
  modelKey?: string
  body?: Buffer
  deadlineMs: number
}

/** Sends an order to a node over its link and returns the response; throws a `LinkError` if there is none. */
export async function orderNode(
  { links }: Pick<Services, 'links'>,
  nodeId: string,
  { modelKey = '', body = Buffer.alloc(0), ...order }: NodeOrder,
): Promise<Buffer> {
  const { body: answer, room } = await links.ask(nodeId, { ...order, modelKey, path: '', body })
  room.release()
  return answer
}

/** Longer than a node waits for a stopped model's memory to be freed. */
const EVICTION_TIMEOUT_MS = 65_000

/** Orders a node to unload a model. Returns the reason why it stays loaded, or undefined; throws a `LinkError`. */
export async function orderEviction(
  services: Pick<Services, 'links'>,
  nodeId: string,
  model: Pick<NodeOrder, 'accountId' | 'modelKey'>,
): Promise<string | undefined> {
  const order = { ...model, order: 'evict', deadlineMs: EVICTION_TIMEOUT_MS } as const
  const { reason } = JSON.parse(String(await orderNode(services, nodeId, order))) as { reason?: string }
  return reason
}
