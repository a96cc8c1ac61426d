import * as taskRepository from '../../db/repositories/tasks/tasks.ts'
import type { Services } from '../services.ts'

/** Returns the account that earns a task's payout; undefined for a free task, which has no payout. */
export function ownerOfNode(
  { db, links }: Pick<Services, 'db' | 'links'>,
  priceMicro: number,
  nodeId: string,
): string | undefined | Promise<string | undefined> {
  if (priceMicro === 0) return undefined
  return links.ownerOf(nodeId) ?? taskRepository.findNodeOwner(db, nodeId).then((node) => node?.account_id)
}
