import { join } from 'node:path'
import { ControlError } from './client.ts'
import { type Identity, joinedAs } from './identity.ts'

/** Stops a node permanently: its identity is no longer valid. */
export class NodeRevokedError extends Error {
  override readonly name = 'NodeRevokedError'
}

/**
 * Returns the reason to stop if a gateway refused the node that joined from this folder; undefined if the refusal is
 * temporary.
 */
export function revocationOf(err: unknown, dir: string): NodeRevokedError | undefined {
  const reason = err instanceof ControlError && err.status === 401 ? err.details['reason'] : undefined
  const file = join(dir, 'identity.json')
  const rejoinHint = `To join again, remove ${file} and restart the node: \`npm start\` creates a new token by itself; otherwise set HEARTH_NODE_TOKEN to a token from \`hearth node-token create\`.`
  if (reason === 'node_removed')
    return new NodeRevokedError(`This node has been removed from the pool. ${rejoinHint}`)
  if (reason === 'node_unknown') {
    return new NodeRevokedError(`The platform does not know the node identity in ${file}. ${rejoinHint}`)
  }
  if (reason === 'node_replaced') {
    return new NodeRevokedError(
      `Another process was started with the identity in ${file} and replaces this one.`,
    )
  }
  return undefined
}

/** Returns the reason to stop if this node's folder has a new identity because its machine has joined again. */
export async function successorOf(
  dir: string,
  { nodeId }: Pick<Identity, 'nodeId'>,
): Promise<NodeRevokedError | undefined> {
  const now = await joinedAs(dir)
  if (now === undefined || now === nodeId) return undefined
  return new NodeRevokedError(`This machine has joined again as node ${now}, which replaces this one.`)
}
