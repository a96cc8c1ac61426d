import type { Command } from 'commander'
import type { Account } from '../../../schemas/admin.ts'
import { countOrDefault, storageQuota, wholeNumber } from '../../arguments.ts'
import { open } from '../../context.ts'
import { id } from '../../ids.ts'
import { print } from '../../print.ts'

interface QuotaOptions {
  training?: number
  tasks?: number
  storage?: number | 'default'
  copies?: number | 'default'
}

/** Formats the storage quota, which older gateways omit. */
function inGigabytes(quotaBytes: number | null | undefined): string {
  if (quotaBytes === 0) return 'unlimited'
  return typeof quotaBytes === 'number' ? `${quotaBytes / 1e9} GB` : 'at the platform default'
}

/** Formats the copy quota, which older gateways omit. */
const inCopies = (quota: number | null | undefined): string =>
  typeof quota === 'number' ? String(quota) : 'at the platform default'

/** Commands for the quotas of accounts. */
export function quotaCommands(quotas: Command): void {
  quotas
    .command('set <account_id>')
    .description(
      'set the quotas of an account: open training runs and merges, waiting tasks, storage, and reserved model copies',
    )
    .option('--training <n>', 'maximum number of open training runs and merges', wholeNumber)
    .option('--tasks <n>', 'maximum number of inference tasks waiting for a node', wholeNumber)
    .option(
      '--storage <gb>',
      'gigabytes of storage; 0: no limit; "default": the platform default',
      storageQuota,
    )
    .option(
      '--copies <n>',
      'model copies that its endpoints may reserve; "default": the platform default',
      countOrDefault,
    )
    .action(async (accountId: string, options: QuotaOptions, command: Command) => {
      const context = open(command)
      const { training, tasks, storage, copies } = options
      if ([training, tasks, storage, copies].every((quota) => quota === undefined))
        command.error('pass --training, --tasks, --storage or --copies')
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
