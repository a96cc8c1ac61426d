import { join } from 'node:path'
import { ControlError } from './client.ts'
import { type Identity, joinedAs } from './identity.ts'

/** Why a node ends for good: its identity opens nothing any more. */
export class DismissedError extends Error {
  override readonly name = 'DismissedError'
}

/** What a gateway's refusal means for a node that was joined from this folder; undefined when it may pass. */
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

/** Why this node ends when another identity lies in its folder now: the machine was joined anew. */
export async function successorOf(
  dir: string,
  { nodeId }: Pick<Identity, 'nodeId'>,
): Promise<DismissedError | undefined> {
  const now = await joinedAs(dir)
  if (now === undefined || now === nodeId) return undefined
  return new DismissedError(`This machine was joined anew as node ${now}, which takes the place of this one.`)
}
