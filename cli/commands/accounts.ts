import { type Command, Option } from 'commander'
import { isUuid } from '../../domain/uuid.ts'
import type { Account } from '../../schemas/admin.ts'
import type { ApiKey } from '../../schemas/api-key.ts'
import { toolList, wholeNumber } from '../arguments.ts'
import { usageError } from '../cli-error.ts'
import type { Context } from '../context.ts'
import { print, table } from '../print.ts'
import { warningOfUnmatched } from '../unmatched-tools.ts'

type Open = (command: Command) => Context

/** Tenants, their keys and their quotas. */
export function accountCommands(program: Command, open: Open): void {
  const accounts = program.command('accounts').description('create and list accounts')
  accounts
    .command('create <name>')
    .description('create an account; give it a key with `keys create`')
    .option('--training-quota <n>', 'training runs and merges at once', wholeNumber)
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
      'set which private and gated hub repositories an account may use: ids, owner/* or *; none takes all back',
    )
    .action(async (accountId: string, patterns: string[], _options: object, command: Command) => {
      const context = open(command)
      const path = `/accounts/${id(accountId)}`
      const account = await context.client.call<Account>('PATCH', path, { hub_repos: patterns })
      const listed = account.hub_repos.join(', ') || 'no private or gated repository'
      print(context, account, `${account.name} may use ${listed}.`)
    })

  program
    .command('quotas')
    .description('set what an account may do at once')
    .command('set <account_id>')
    .description('set how many training runs and merges may be open at once, and how many tasks may wait')
    .option('--training <n>', 'training runs and merges at once', wholeNumber)
    .option('--tasks <n>', 'inference tasks that wait for a node at once', wholeNumber)
    .action(async (accountId: string, options: { training?: number; tasks?: number }, command: Command) => {
      const context = open(command)
      const { training, tasks } = options
      if (training === undefined && tasks === undefined) command.error('give --training or --tasks')
      const account = await context.client.call<Account>('PATCH', `/accounts/${id(accountId)}`, {
        ...(training !== undefined && { training_quota: training }),
        ...(tasks !== undefined && { task_quota: tasks }),
      })
      const { name, training_quota, task_quota } = account
      print(context, account, `${name}: training quota ${training_quota}, task quota ${task_quota}.`)
    })
}

interface KeyOptions {
  name: string
  role: string
  tools?: string[]
}

/** API keys: their text is shown once, at their creation. */
export function keyCommands(program: Command, open: Open): void {
  const keys = program.command('keys').description('create, list and revoke API keys')
  keys
    .command('create [account_id]')
    .description('create a key; without an account, for that of the platform running here')
    .option('--name <name>', 'what the key is for', 'cli')
    .addOption(
      new Option(
        '--role <role>',
        'viewer reads, operator also creates and infers, admin does everything; an account’s first key is admin',
      )
        .choices(['viewer', 'operator', 'admin'])
        .default('operator'),
    )
    .option(
      '--tools <list>',
      'limit the key to tools: comma-separated names, patterns such as sales-*, kind:llm or stability:stable',
      toolList,
    )
    .action(async (accountId: string | undefined, options: KeyOptions, command: Command) => {
      const context = open(command)
      const { name, role, tools } = options
      const key = await context.client.call<ApiKey & { api_key: string }>(
        'POST',
        `/accounts/${account(context, accountId)}/keys`,
        { name, role, ...(tools && { tools }) },
      )
      const limit = key.tools ? `, limited to ${key.tools.join(', ')}` : ''
      const first = key.role === role ? '' : ` (not ${role}: the first key of an account is always admin)`
      print(
        context,
        key,
        `${key.api_key}\n\nKey ${key.key_id}, role ${key.role}${first}${limit}. It is stored hashed: this is the only time it is shown.`,
      )
      if (!key.tools) return
      const warning = await warningOfUnmatched(context.client.baseUrl, { ...key, tools: key.tools })
      if (warning) console.error(`hearth: ${warning}`)
    })
  keys
    .command('list [account_id]')
    .description('list keys, without their texts')
    .action(async (accountId: string | undefined, _options: object, command: Command) => {
      const context = open(command)
      const { keys: list } = await context.client.call<{ keys: ApiKey[] }>(
        'GET',
        `/accounts/${account(context, accountId)}/keys`,
      )
      const rows = list.map((key) => [
        key.key_id,
        key.name,
        key.role,
        key.tools?.join(', ') ?? 'all',
        `...${key.hint}`,
        key.revoked_at ?? 'live',
      ])
      print(context, list, table(['KEY', 'NAME', 'ROLE', 'TOOLS', 'ENDS IN', 'REVOKED'], rows))
    })
  keys
    .command('revoke <key_id>')
    .description('revoke a key; every gateway refuses it within two seconds')
    .action(async (keyId: string, _options: object, command: Command) => {
      const context = open(command)
      await context.client.call('DELETE', `/keys/${id(keyId)}`)
      print(context, { key_id: keyId, revoked: true }, `Key ${keyId} is revoked.`)
    })
}

/** Returns the named account, or that of the embedded platform. */
export function account({ defaultAccount }: Context, given: string | undefined): string {
  const chosen = given ?? defaultAccount
  if (chosen) return id(chosen)
  throw usageError('Name an account: `hearth accounts list` shows them.')
}

/** Checks an id that becomes part of a path. */
export function id(text: string): string {
  if (isUuid(text)) return text
  throw usageError(`${JSON.stringify(text)} is no id: ids are UUIDs, which the list commands show`)
}
