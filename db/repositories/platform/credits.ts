import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { credit } from '../../../domain/ledger.ts'
import type { Database } from '../../tables.ts'
import type { AccountCreditRow } from '../../tables/accounts.ts'
import { ALWAYS, spentBy } from './ledger-reports.ts'

/** Gives credits to an account, or takes some back: writes the row and the ledger transfer. */
export async function giveCredits(
  trx: Transaction<Database>,
  { accountId, amountMicro, reason }: { accountId: string; amountMicro: number; reason: string },
): Promise<AccountCreditRow> {
  const row = await trx
    .insertInto('account_credit')
    .values({ id: newId(), account_id: accountId, amount_micro: amountMicro, reason })
    .returningAll()
    .executeTakeFirstOrThrow()
  const { kind, from, to, amount_micro } = credit(accountId, amountMicro)
  await trx
    .insertInto('ledger_transfer')
    .values({ task_id: row.id, kind, from_purse: from, to_purse: to, amount_micro })
    .execute()
  return row
}

/** Returns an account's balance in micro-credits: credits received less credits spent; holds count as spent. */
export async function balanceOf(db: Kysely<Database>, accountId: string): Promise<number> {
  const [spent, { given }] = await Promise.all([
    spentBy(db, accountId, ALWAYS),
    db
      .selectFrom('account_credit')
      .select(sql<number>`coalesce(sum(amount_micro), 0)::bigint`.as('given'))
      .where('account_id', '=', accountId)
      .executeTakeFirstOrThrow(),
  ])
  return given - spent
}
