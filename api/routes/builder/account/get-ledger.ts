import type { Kysely } from 'kysely'
import type { Static } from 'typebox'
import * as creditRepository from '../../../../db/repositories/platform/credits.ts'
import * as ledgerRepository from '../../../../db/repositories/platform/ledger-reports.ts'
import type { Database } from '../../../../db/tables.ts'
import { microToCredits } from '../../../../domain/money.ts'
import { type AccountEntry, AccountLedger, LedgerQuery } from '../../../../schemas/account.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { periodOf } from './period.ts'

export const getLedger = route({
  operationId: 'getLedger',
  summary: "List the account's charges, refunds and credits, newest work first, with its balance",
  method: 'GET',
  path: '/ledger',
  auth: 'api-key',
  query: LedgerQuery,
  success: { status: 200, schema: AccountLedger },

  handler: ({ caller: { accountId }, query }, { db }) => readAccountLedger(db, accountId, query),
})

/** Returns a page of an account's charges, refunds and credits, with its balance. */
export async function readAccountLedger(
  db: Kysely<Database>,
  accountId: string,
  query: Static<typeof LedgerQuery>,
): Promise<AccountLedger> {
  const period = periodOf(query)
  const [page, spent, balance] = await Promise.all([
    readPage(query, ['ledger', accountId, query.from, query.to], (request) =>
      ledgerRepository.listBooked(db, accountId, { ...request, ...period }),
    ),
    ledgerRepository.spentBy(db, accountId, period),
    creditRepository.balanceOf(db, accountId),
  ])
  return {
    entries: page.items.flatMap(present),
    next_cursor: page.next_cursor,
    period: { spent_micro: spent, spent_credits: microToCredits(spent) },
    balance: { micro: balance, credits: microToCredits(balance) },
  }
}

const present = ({ entries, ...work }: ledgerRepository.BookedWork): AccountEntry[] =>
  entries.map(({ kind, amount_micro, created_at }) => ({
    task_id: work.task_id,
    endpoint_id: work.endpoint_id,
    cohort_id: work.cohort_id,
    stage: work.stage,
    reason: work.reason,
    kind,
    amount_micro,
    amount_credits: microToCredits(amount_micro),
    created_at: new Date(created_at).toISOString(),
  }))
