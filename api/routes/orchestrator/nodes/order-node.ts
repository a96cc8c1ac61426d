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
