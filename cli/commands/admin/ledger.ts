import type { Command } from 'commander'
import type { AccountLedger } from '../../../schemas/account.ts'
import { timeOf, wholeNumber } from '../../arguments.ts'
import { asAccount } from '../../as-account.ts'
import { print, table } from '../../print.ts'

interface LedgerOptions {
  from?: string
  to?: string
  limit: number
}

/** Lists the account's charges, refunds and grants, with its balance. */
export function ledgerCommand(ledger: Command): void {
  ledger
    .option('--from <time>', 'entries for work since this date or time', timeOf)
    .option('--to <time>', 'entries for work before this date or time', timeOf)
    .option('--limit <n>', 'maximum number of entries', wholeNumber, 50)
    .action(
      asAccount(async ({ h, json }, { from, to, limit }: LedgerOptions) => {
        const query = {
          ...(from !== undefined && { from }),
          ...(to !== undefined && { to }),
          limit: Math.min(100, Math.max(1, limit)),
        }
        const entries: AccountLedger['entries'] = []
        let sums: Pick<AccountLedger, 'period' | 'balance'> | undefined
        for await (const { items, answer } of h.ledger(query).pages()) {
          sums ??= { period: answer.period, balance: answer.balance }
          entries.push(...items)
          if (entries.length >= limit) break
        }
        const shown = entries.slice(0, limit)
        const rows = shown.map((entry) => [
          entry.created_at,
          entry.kind,
          entry.amount_credits,
          entry.task_id,
          entry.stage,
          entry.endpoint_id,
          entry.reason,
        ])
        const headings = ['TIME', 'KIND', 'CREDITS', 'TASK', 'STAGE', 'ENDPOINT', 'REASON']
        const sum = `${sums?.period.spent_credits} credits spent in the period; the balance is ${sums?.balance.credits}.`
        print({ json }, { entries: shown, ...sums }, `${table(headings, rows)}\n${sum}`)
      }),
    )
}
