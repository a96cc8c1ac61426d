import type { Command } from 'commander'
import type { Account } from '../../schemas/admin.ts'
import { countOrDefault, storageQuota, wholeNumber } from '../arguments.ts'
import { open } from '../context.ts'
import { id } from '../ids.ts'
import { print } from '../print.ts'

interface QuotaOptions {
  training?: number
  tasks?: number
  storage?: number | 'default'
  copies?: number | 'default'
}

/** Older gateways leave the quota out. */
function inGigabytes(quotaBytes: number | null | undefined): string {
  if (quotaBytes === 0) return 'without limit'
  return typeof quotaBytes === 'number' ? `${quotaBytes / 1e9} GB` : 'as the platform has it'
}

/** Older gateways leave the quota out. */
const inCopies = (quota: number | null | undefined): string =>
  typeof quota === 'number' ? String(quota) : 'as the platform has it'

/** The quotas of accounts. */
export function quotaCommands(quotas: Command): void {
  quotas
    .command('set <account_id>')
    .description(
      'set how many training runs and merges may be open at once, how many tasks may wait, how much may be stored, and how many copies of models may be reserved',
    )
    .option('--training <n>', 'training runs and merges at once', wholeNumber)
    .option('--tasks <n>', 'inference tasks that wait for a node at once', wholeNumber)
    .option('--storage <gb>', 'gigabytes stored; 0 is no limit, default that of the platform', storageQuota)
    .option(
      '--copies <n>',
      'copies of models that its endpoints may reserve; default that of the platform',
      countOrDefault,
    )
    .action(async (accountId: string, options: QuotaOptions, command: Command) => {
      const context = open(command)
      const { training, tasks, storage, copies } = options
      if ([training, tasks, storage, copies].every((quota) => quota === undefined))
        command.error('give --training or --tasks or --storage or --copies')
      const account = await context.client.call<Account>('PATCH', `/accounts/${id(accountId)}`, {
        ...(training !== undefined && { training_quota: training }),
        ...(tasks !== undefined && { task_quota: tasks }),
        ...(storage !== undefined && { storage_quota_bytes: storage === 'default' ? null : storage }),
        ...(copies !== undefined && { copy_quota: copies === 'default' ? null : copies }),
      })
      const { name, training_quota, task_quota, storage_quota_bytes, copy_quota } = account
      print(
        context,
        account,
        `${name}: training quota ${training_quota}, task quota ${task_quota}, storage quota ${inGigabytes(storage_quota_bytes)}, copy quota ${inCopies(copy_quota)}.`,
      )
    })
}
