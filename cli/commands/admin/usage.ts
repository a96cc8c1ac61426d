import { type Command, Option } from 'commander'
import type { AccountUsage } from '../../../schemas/account.ts'
import { timeOf } from '../../arguments.ts'
import { asAccount } from '../../as-account.ts'
import { print, table } from '../../print.ts'

interface UsageOptions {
  by: AccountUsage['group']
  from?: string
  to?: string
}

/** Shows the usage of the account. */
export function usageCommand(usage: Command): void {
  usage
    .addOption(
      new Option('--by <group>', 'group by').choices(['day', 'endpoint', 'key', 'model']).default('day'),
    )
    .option('--from <time>', 'work since this date or time', timeOf)
    .option('--to <time>', 'work before this date or time', timeOf)
    .action(
      asAccount(async ({ h, json }, { by, from, to }: UsageOptions) => {
        const found = await h.usage({
          group: by,
          ...(from !== undefined && { from }),
          ...(to !== undefined && { to }),
        })
        const rows = found.rows.map((row) => [
          row.name ?? row.group,
          row.requests,
          row.failed,
          row.tokens_in,
          row.tokens_out,
          row.cost_credits,
        ])
        const headings = [by.toUpperCase(), 'REQUESTS', 'FAILED', 'TOKENS IN', 'TOKENS OUT', 'CREDITS']
        print({ json }, found, `${table(headings, rows)}\nFrom ${found.from} to ${found.to}.`)
      }),
    )
}
