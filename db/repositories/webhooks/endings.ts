import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import { OPEN_DELIVERY } from './deliveries.ts'
import { supersedeVerifications } from './endpoints.ts'
import { dropOverflow } from './fan-out.ts'

/**
 * The number of deliveries that one housekeeping step ends. Every statement that updates several deliveries first locks
 * them in id order, so that no two of them deadlock.
 */
const ENDED_PER_STEP = 5_000

/** Ends a delivery without another attempt. If an attempt is in flight, its outcome appears only in the history. */
export async function endDelivery(
  db: Kysely<Database>,
  deliveryId: string,
  status: 'cancelled' | 'dead_lettered',
  now: Date,
): Promise<void> {
  await db
    .updateTable('webhook_delivery')
    .set({ status, completed_at: now, next_attempt_at: null })
    .where('id', '=', deliveryId)
    .where('status', 'in', OPEN_DELIVERY)
    .execute()
}

/** Ends all open deliveries of an endpoint. A sender finds its delivery ended and sends no more. */
export async function cancelDeliveries(trx: Transaction<Database>, endpointId: string): Promise<void> {
  await dropOverflow(trx, endpointId)
  await cancelOpen(trx, endpointId, sql``)
}

/**
 * Ends open redeliveries after the endpoint's URL has changed, because they are pinned to the URL they were created
 * with.
 */
export async function cancelPinnedDeliveries(trx: Transaction<Database>, endpointId: string): Promise<void> {
  await cancelOpen(trx, endpointId, sql`and pinned_version is not null`)
}

async function cancelOpen(
  trx: Transaction<Database>,
  endpointId: string,
  which: RawBuilder<unknown>,
): Promise<void> {
  await sql`
    with locked as materialized (
      select id from webhook_delivery
      where endpoint_id = ${endpointId} and status in ('pending', 'delivering', 'retrying') ${which}
      order by id for no key update
    )
    update webhook_delivery d set status = 'cancelled', completed_at = now(), next_attempt_at = null
    from locked where d.id = locked.id`.execute(trx)
}

/**
 * Ends deliveries that stayed open at a disabled endpoint, for example because their event arrived
 * while it was being disabled.
 */
export async function cancelStrandedDeliveries(db: Kysely<Database>, now: Date): Promise<void> {
  await sql`
    with locked as materialized (
      select d.id from webhook_delivery d join webhook_endpoint e on e.id = d.endpoint_id
      where d.status in ('pending', 'retrying') and (not e.enabled or e.deleted_at is not null)
      order by d.id limit ${ENDED_PER_STEP} for no key update of d
    )
    update webhook_delivery d set status = 'cancelled', completed_at = ${now}, next_attempt_at = null
    from locked where d.id = locked.id and d.status in ('pending', 'retrying')`.execute(db)
}

/**
 * Ends deliveries that were still waiting at their deadline: for a verification that never succeeded, or after a long
 * outage.
 */
export async function expireDeliveries(db: Kysely<Database>, now: Date): Promise<void> {
  // Two statements, each with its own partial index; no attempt is due later than its deadline.
  await deadLetter(db, sql`status = 'pending'`, now)
  await deadLetter(db, sql`status = 'retrying' and next_attempt_at <= ${now}`, now)
}

async function deadLetter(db: Kysely<Database>, which: RawBuilder<unknown>, now: Date): Promise<void> {
  await sql`
    with locked as materialized (
      select id from webhook_delivery where ${which} and deadline_at <= ${now}
      order by id limit ${ENDED_PER_STEP} for no key update
    )
    update webhook_delivery d set status = 'dead_lettered', completed_at = ${now}, next_attempt_at = null
    from locked where d.id = locked.id and d.status in ('pending', 'retrying')`.execute(db)
}

/**
 * Disables an endpoint that returned 410, until an administrator enables it again. False if the URL that returned it is
 * no longer the current one, or the endpoint is already disabled.
 */
export async function disableGoneEndpoint(
  trx: Transaction<Database>,
  { endpointId, version }: { endpointId: string; version: number },
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('webhook_endpoint')
    .set({
      enabled: false,
      disabled_reason: 'the destination answered 410 Gone',
      revision: sql<number>`revision + 1`,
      updated_at: sql<Date>`now()`,
    })
    .where('id', '=', endpointId)
    .where('destination_version', '=', version)
    .where('enabled', '=', true)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  await supersedeVerifications(trx, endpointId)
  await cancelDeliveries(trx, endpointId)
  return true
}
