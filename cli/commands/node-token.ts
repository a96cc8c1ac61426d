import type { Command } from 'commander'
import { open } from '../context.ts'
import { account } from '../ids.ts'
import { print } from '../print.ts'

/** The tokens with which machines join the pool. */
export function nodeTokenCommands(nodeToken: Command): void {
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
  nodeToken
    .command('create [account_id]', { isDefault: true })
    .description('the account owns the node and earns its share')
    .option('--shared', 'the node works for every account; its owner is trusted with what it is given')
    .action(create)
}
