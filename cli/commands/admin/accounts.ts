import type { Command } from 'commander'
import type { Account } from '../../../schemas/admin.ts'
import { wholeNumber } from '../../arguments.ts'
import { open } from '../../context.ts'
import { id } from '../../ids.ts'
import { print, table } from '../../print.ts'

/** Commands for accounts (tenants). */
export function accountCommands(accounts: Command): void {
  accounts
    .command('create <name>')
    .description('create an account; create its first key with `keys create`')
    .option('--training-quota <n>', 'maximum number of open training runs and merges', wholeNumber)
    .action(async (name: string, options: { trainingQuota?: number }, command: Command) => {
      const context = open(command)
      const account = await context.client.call<Account>('POST', '/accounts', {
        name,
        ...(options.trainingQuota !== undefined && { training_quota: options.trainingQuota }),
      })
      print(
        context,
        account,
        `Account ${account.account_id} (${account.name}), training quota ${account.training_quota}.`,
      )
    })
  accounts
    .command('list')
    .alias('ls')
    .description('list accounts, newest first')
    .action(async (_options: object, command: Command) => {
      const context = open(command)
      const list = await context.client.all<Account>('/accounts', 'accounts')
      const rows = list.map((one) => [one.account_id, one.name, one.training_quota, one.created_at])
      print(context, list, table(['ACCOUNT', 'NAME', 'TRAINING QUOTA', 'CREATED'], rows))
    })

  accounts
    .command('hub-repos <account_id> [patterns...]')
    .description(
      'set the private and gated hub repositories that an account may use: ids, owner/* or *; without patterns, remove all',
    )
    .action(async (accountId: string, patterns: string[], _options: object, command: Command) => {
      const context = open(command)
      const path = `/accounts/${id(accountId)}`
      const account = await context.client.call<Account>('PATCH', path, { hub_repos: patterns })
      const listed = account.hub_repos.join(', ') || 'no private or gated repository'
      print(context, account, `${account.name} may use ${listed}.`)
    })
}
