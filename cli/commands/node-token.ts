import type { Command } from 'commander'
import { open } from '../context.ts'
import { account } from '../ids.ts'
import { print } from '../print.ts'

/** Commands for the tokens with which nodes join the pool. */
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
    // The first node on this machine uses the default folder.
    const folder = context.defaultAccount === undefined ? '' : 'HEARTH_NODE_DIR=.hearth/second '
    print(
      context,
      token,
      [
        token.node_token,
        '',
        `Valid for one node and 24 hours; the node works for ${shared ? 'every account' : 'this account only'}. On its machine, in a checkout after \`npm ci\`, run:`,
        `  ${folder}HEARTH_GATEWAY_URL=${context.client.baseUrl} HEARTH_NODE_TOKEN=${token.node_token} npx node workers/node.ts`,
      ].join('\n'),
    )
  }
  nodeToken
    .command('create [account_id]', { isDefault: true })
    .description('create a join token; the account owns the node and earns its share')
    .option('--shared', 'the node works for every account; its owner must be trusted with their data')
    .action(create)
}
