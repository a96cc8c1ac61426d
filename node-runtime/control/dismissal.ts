import { join } from 'node:path'
import { ControlError } from './client.ts'
import { type Identity, joinedAs } from './identity.ts'

/** The reason why a node ends for good: its identity is no longer valid. */
export class DismissedError extends Error {
  override readonly name = 'DismissedError'
}

/** Converts a gateway's refusal of a node that was joined from this folder; undefined when it is temporary. */
export function dismissalOf(err: unknown, dir: string): DismissedError | undefined {
  const reason = err instanceof ControlError && err.status === 401 ? err.details['reason'] : undefined
  const file = join(dir, 'identity.json')
  const anew = `To join anew, remove ${file} and start it again: \`npm start\` makes a new token by itself, elsewhere set HEARTH_NODE_TOKEN to one from \`hearth node-token create\`.`
  if (reason === 'node_removed')
    return new DismissedError(`This node has been removed from the pool. ${anew}`)
  if (reason === 'node_unknown') {
    return new DismissedError(`The platform knows no node with the identity in ${file}. ${anew}`)
  }
  if (reason === 'node_replaced') {
    return new DismissedError(
      `Another process was started with the identity in ${file}, and takes the place of this one.`,
    )
  }
  return undefined
}

/** Returns why this node must end when its folder now has another identity: the machine was joined anew. */
export async function successorOf(
  dir: string,
  { nodeId }: Pick<Identity, 'nodeId'>,
): Promise<DismissedError | undefined> {
  const now = await joinedAs(dir)
  if (now === undefined || now === nodeId) return undefined
  return new DismissedError(`This machine was joined anew as node ${now}, which takes the place of this one.`)
}
