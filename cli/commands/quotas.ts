import type { Command } from 'commander'
import type { Account } from '../../schemas/admin.ts'
import { wholeNumber } from '../arguments.ts'
import { open } from '../context.ts'
import { id } from '../ids.ts'
import { print } from '../print.ts'

/** The quotas of accounts. */
export function quotaCommands(quotas: Command): void {
  quotas
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
