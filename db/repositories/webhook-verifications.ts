import { type Kysely, sql } from 'kysely'
import type { Database } from '../tables.ts'
import type { WebhookEndpointRow, WebhookVerificationRow } from '../tables/webhooks.ts'
import { lockDestinations } from './webhook-endpoints.ts'

export interface PendingVerification {
  verification: WebhookVerificationRow
  endpoint: WebhookEndpointRow
}

/** The verification of a destination's version, while it still counts. */
export async function findOpenVerification(
  db: Kysely<Database>,
  endpointId: string,
  version: number,
): Promise<PendingVerification | undefined> {
  const verification = await db
    .selectFrom('webhook_verification')
    .selectAll()
    .where('endpoint_id', '=', endpointId)
    .where('destination_version', '=', version)
    .where('status', '=', 'pending')
    .executeTakeFirst()
  const endpoint = await db
    .selectFrom('webhook_endpoint')
    .selectAll()
    .where('id', '=', endpointId)
    .where('destination_version', '=', version)
    .where('enabled', '=', true)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  return verification && endpoint && { verification, endpoint }
}

/** Verifications whose window has closed without anybody there to say so. */
export async function failLapsedVerifications(db: Kysely<Database>, now: Date): Promise<void> {
  await db
    .updateTable('webhook_verification')
    .set({ status: 'failed' })
    .where('status', '=', 'pending')
    .where('window_ends_at', '<', now)
    .execute()
}

/**
 * Ends a verification that still counts, and says whether it did; a destination verified inside its window becomes active in
 * the same transaction.
 */
export async function finishVerification(
  db: Kysely<Database>,
  { verification: { endpoint_id, destination_version } }: PendingVerification,
  { status, now }: { status: 'verified' | 'failed'; now: Date },
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    await lockDestinations(trx, [endpoint_id])
    let ending = trx
      .updateTable('webhook_verification')
      .set({ status })
      .where('endpoint_id', '=', endpoint_id)
      .where('destination_version', '=', destination_version)
      .where('status', '=', 'pending')
    if (status === 'verified') ending = ending.where('window_ends_at', '>', now)
    const { numUpdatedRows } = await ending.executeTakeFirst()
    if (numUpdatedRows === 0n || status === 'failed') return numUpdatedRows > 0n
    await trx
      .updateTable('webhook_endpoint')
      .set({
        verification_status: 'active',
        revision: sql<number>`revision + 1`,
        updated_at: sql<Date>`now()`,
      })
      .where('id', '=', endpoint_id)
      .where('destination_version', '=', destination_version)
      .execute()
    return true
  })
}
