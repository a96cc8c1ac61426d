import assert from 'node:assert/strict'
import type { Kysely } from 'kysely'
import type { Database } from '../../../db/tables.ts'

/** Asserts that a task failed permanently: its account got a refund and one event. */
export async function assertRefunded(db: Kysely<Database>, taskId: string): Promise<void> {
  const task = await db.selectFrom('task').selectAll().where('id', '=', taskId).executeTakeFirstOrThrow()
  const lines = await db
    .selectFrom('ledger_line')
    .select(['kind', 'purse', 'amount_micro'])
    .where('task_id', '=', taskId)
    .execute()
  const events = await db.selectFrom('event').select('type').where('resource_id', '=', taskId).execute()

  const { account_id, price_micro: price } = task
  assert.equal(task.status, 'failed')
  assert.ok(price > 0, 'a task without a price cannot prove a refund')
  assert.deepEqual(
    lines.map(({ kind, purse, amount_micro }) => `${kind} ${purse} ${amount_micro}`).toSorted(),
    [
      `hold account:${account_id} ${-price}`,
      `hold escrow ${price}`,
      `refund account:${account_id} ${price}`,
      `refund escrow ${-price}`,
    ].toSorted(),
  )
  assert.deepEqual(events, [{ type: 'inference.task.failed' }])
}
