import type { Command } from 'commander'
import type { NodeView } from '../../schemas/node.ts'
import type { Context } from '../context.ts'
import { print, table } from '../print.ts'
import { account, id } from './accounts.ts'

/** The response to a change of a node has the changed field. */
interface Moved {
  status?: string
  sharing?: string
}

type Open = (command: Command) => Context

/** Machines of the pool, and the tokens with which they join. */
export function nodeCommands(program: Command, open: Open): void {
  const create = async (
    accountId: string | undefined,
    { shared = false }: { shared?: boolean },
    command: Command,
  ) => {
    const context = open(command)
    const token = await context.client.call<{ node_token: string }>('POST', '/node-tokens', {
      account_id: account(context, accountId),
      ...(shared && { sharing: 'shared' }),
    })
    // The first node of this machine has the default folder.
    const folder = context.defaultAccount === undefined ? '' : 'HEARTH_NODE_DIR=.hearth/second '
    print(
      context,
      token,
      [
        token.node_token,
        '',
        `Good for one machine and 24 hours; it works for ${shared ? 'every account' : 'this account alone'}. On that machine, in a checkout after \`npm ci\`:`,
        `  ${folder}HEARTH_GATEWAY_URL=${context.client.baseUrl} HEARTH_NODE_TOKEN=${token.node_token} npx node workers/node.ts`,
      ].join('\n'),
    )
  }
  program
    .command('node-token')
    .description('make a one-time token by which a machine joins the pool')
    .command('create [account_id]', { isDefault: true })
    .description('the account owns the node and earns its share')
    .option('--shared', 'the node works for every account; its owner is trusted with what it is given')
    .action(create)

  const nodes = program.command('nodes').description('list, drain, resume, share and remove nodes')
  nodes
    .command('list')
    .description('list the nodes of the pool')
    .action(async (_options: object, command: Command) => {
      const context = open(command)
      const list = await context.client.all<NodeView>('/nodes', 'nodes')
      const rows = list.map((node) => [
        node.node_id,
        node.name,
        node.status,
        node.sharing,
        node.account_id,
        node.inventory.hardware,
        node.memory_free_mb === null ? null : `${node.memory_free_mb} of ${node.inventory.memory_mb} MB`,
        `${node.models.filter(({ state }) => state !== 'evicted').length} of ${node.ordered_models.length} ordered`,
        isolationOf(node),
        node.last_seen_at,
      ])
      const headings = [
        'NODE',
        'NAME',
        'STATUS',
        'SHARING',
        'ACCOUNT',
        'HARDWARE',
        'FREE MEMORY',
        'MODELS',
        'ISOLATION',
        'LAST SEEN',
      ]
      print(context, list, table(headings, rows))
    })

  for (const [verb, description] of [
    ['drain', 'let a node finish what it has and take nothing new'],
    ['resume', 'let a drained node take work again'],
    ['share', 'give a node the work of every account; its owner is trusted with what it is given'],
    ['dedicate', 'give a node the work of its own account alone'],
    ['remove', 'remove a node; its key is refused from now on'],
  ] as const) {
    nodes
      .command(`${verb} <node_id>`)
      .description(description)
      .action(async (nodeId: string, _options: object, command: Command) => {
        const context = open(command)
        const path = `/nodes/${id(nodeId)}`
        const moved = await (verb === 'remove'
          ? context.client.call<Moved>('DELETE', path)
          : context.client.call<Moved>('POST', `${path}/${verb}`))
        print(context, moved, `Node ${nodeId} is ${moved.status ?? moved.sharing}.`)
      })
  }
}

/** Returns the measures that isolate the node from its programs and are missing, or `full`. */
function isolationOf({ inventory: { isolation } }: NodeView): string {
  if (!isolation) return 'not known'
  const missing = Object.values(isolation).flatMap((measures) =>
    Object.entries(measures).flatMap(([name, { enforced }]) => (enforced ? [] : [name])),
  )
  return missing.length === 0 ? 'full' : `no ${[...new Set(missing)].join(', no ')}`
}
