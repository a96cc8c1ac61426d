import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { credit } from '../../../domain/ledger.ts'
import type { Database } from '../../tables.ts'
import type { AccountCreditRow } from '../../tables/accounts.ts'
import { ALWAYS, spentBy } from './ledger.ts'

/** Gives an account credits, or takes some back: the row and what moves in the ledger. */
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

/** Returns what an account has been given less what it has spent, in micro-credits; what is held counts as spent. */
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
