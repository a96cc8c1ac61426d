import type { NodePermissions } from '../../db/repositories/nodes/permissions.ts'
import { mayPoll as mayEverPoll } from '../../domain/placement/node-queues.ts'
import { QUEUES } from '../../workflows/contract/policy.ts'

/** Returns whether a node may poll a queue now: a draining node only its own queue, a removed node none. */
export function mayPoll(
  { id, account_id, status, sharing, hardware, ordered }: NodePermissions,
  queue: string,
): boolean {
  if (status === 'removed') return false
  if (status === 'draining') return queue === QUEUES.node(id)
  const poller = { nodeId: id, accountId: account_id, sharing, hardware, orderedModels: ordered }
  return mayEverPoll(poller, queue)
}
