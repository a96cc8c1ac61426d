import { type Kysely, sql, type Transaction } from 'kysely'
import type { ChallengeFailure } from '../../../domain/webhooks/challenge.ts'
import type { Database } from '../../tables.ts'
import type { WebhookEndpointRow, WebhookVerificationRow } from '../../tables/webhooks.ts'
import { lockDestinations } from './endpoints.ts'

export interface PendingVerification {
  verification: WebhookVerificationRow
  endpoint: WebhookEndpointRow
}

/** Finds the verification of a URL's version, while it is pending. */
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

/** Stores a challenge's failure for the owner of the endpoint, while the verification is pending. */
export async function noteChallengeFailure(
  db: Kysely<Database>,
  { verification: { endpoint_id, destination_version } }: PendingVerification,
  failure: Omit<ChallengeFailure, 'is_last'>,
): Promise<void> {
  await db
    .updateTable('webhook_endpoint')
    .set({ verification_failure: JSON.stringify({ ...failure, is_last: false }) })
    .where('id', '=', endpoint_id)
    .where('destination_version', '=', destination_version)
    .where('verification_status', '=', 'pending_verification')
    .execute()
}

/** Fails verifications whose window closed while no workflow was running to fail them. */
export async function failExpiredVerifications(db: Kysely<Database>, now: Date): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const expired = await trx
      .selectFrom('webhook_verification')
      .select('endpoint_id')
      .where('status', '=', 'pending')
      .where('window_ends_at', '<', now)
      .execute()
    await lockDestinations(
      trx,
      expired.map(({ endpoint_id }) => endpoint_id),
    )
    const failed = await trx
      .updateTable('webhook_verification')
      .set({ status: 'failed' })
      .where('status', '=', 'pending')
      .where('window_ends_at', '<', now)
      .returning(['endpoint_id', 'destination_version'])
      .execute()
    for (const verification of failed) await noteLastFailure(trx, verification)
  })
}

/** Marks the stored failure as the last one, so that the owner sees that no further challenge will follow. */
async function noteLastFailure(
  trx: Transaction<Database>,
  { endpoint_id, destination_version }: Pick<WebhookVerificationRow, 'endpoint_id' | 'destination_version'>,
): Promise<void> {
  const unknown = JSON.stringify({ error_code: 'not_asked', status_class: null })
  await trx
    .updateTable('webhook_endpoint')
    .set({
      verification_failure: sql<string>`coalesce(verification_failure, ${unknown}::jsonb) || '{"is_last": true}'::jsonb`,
    })
    .where('id', '=', endpoint_id)
    .where('destination_version', '=', destination_version)
    .where('verification_status', '=', 'pending_verification')
    .execute()
}

/**
 * Ends a pending verification, and returns whether it was pending. An endpoint verified within its window becomes
 * active in the same transaction.
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
    if (numUpdatedRows === 0n) return false
    if (status === 'failed') {
      await noteLastFailure(trx, { endpoint_id, destination_version })
      return true
    }
    await trx
      .updateTable('webhook_endpoint')
      .set({
        verification_status: 'active',
        verification_failure: null,
        revision: sql<number>`revision + 1`,
        updated_at: sql<Date>`now()`,
      })
      .where('id', '=', endpoint_id)
      .where('destination_version', '=', destination_version)
      .execute()
    return true
  })
}
