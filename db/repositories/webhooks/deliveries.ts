import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { DELIVERY_DEADLINE_MS } from '../../../domain/webhooks/schedule.ts'
import { type SortedPage, sortedPage } from '../../keyset.ts'
import type { Database } from '../../tables.ts'
import type { WebhookAttemptRow, WebhookDeliveryRow, WebhookDeliveryStatus } from '../../tables/webhooks.ts'

/** The channel for new deliveries. */
export const WEBHOOK_CHANNEL = 'hearth_webhook'

/** The states in which a delivery may still be sent. */
export const OPEN_DELIVERY = ['pending', 'delivering', 'retrying'] as const satisfies WebhookDeliveryStatus[]

export interface DeliveryFilter {
  endpointId?: string
  status?: WebhookDeliveryStatus
  eventType?: string
}

/** Lists a page of the deliveries of an account. */
export function listWebhookDeliveries(
  db: Kysely<Database>,
  accountId: string,
  { endpointId, status, eventType, ...page }: DeliveryFilter & SortedPage,
): Promise<WebhookDeliveryRow[]> {
  let query = db.selectFrom('webhook_delivery').selectAll()
  if (endpointId !== undefined) query = query.where('endpoint_id', '=', endpointId)
  if (status !== undefined) query = query.where('status', '=', status)
  if (eventType !== undefined) query = query.where('event_type', '=', eventType)
  return sortedPage(query, { table: 'webhook_delivery', accountId }, page).execute()
}

export function findWebhookDelivery(
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<WebhookDeliveryRow | undefined> {
  return ofAccount(db, accountId).where('id', '=', id).executeTakeFirst()
}

/** Lists the attempts of a delivery in order. */
export function listWebhookAttempts(db: Kysely<Database>, deliveryId: string): Promise<WebhookAttemptRow[]> {
  return db
    .selectFrom('webhook_attempt')
    .selectAll()
    .where('delivery_id', '=', deliveryId)
    .orderBy('number')
    .execute()
}

/** A delivery that a workflow owns. */
export type WaitingDelivery = Pick<WebhookDeliveryRow, 'id' | 'account_id'>

/**
 * Lists deliveries between two attempts whose workflow should exist by now, because its start is no longer enqueued.
 */
export async function waitingDeliveries(
  db: Kysely<Database>,
  { after, limit }: { after: string | null; limit: number },
): Promise<WaitingDelivery[]> {
  const { rows } = await sql<WaitingDelivery>`
    with waiting as materialized (select id, account_id from webhook_delivery where status = 'retrying')
    select * from waiting
    where (${after}::uuid is null or id > ${after}::uuid)
      and not exists (select 1 from workflow_start s where s.workflow_id = 'delivery/' || waiting.id)
    order by id limit ${limit}`.execute(db)
  return rows
}

/**
 * Creates a delivery to one endpoint regardless of its subscriptions; used for test events, which no task or job
 * causes.
 */
export async function insertWebhookDelivery(
  trx: Transaction<Database>,
  delivery: { accountId: string; endpointId: string; eventId: string; eventType: string; now: Date },
): Promise<WebhookDeliveryRow> {
  const { accountId, endpointId, eventId, eventType, now } = delivery
  const row = await trx
    .insertInto('webhook_delivery')
    .values({
      id: newId(),
      account_id: accountId,
      endpoint_id: endpointId,
      event_id: eventId,
      event_type: eventType,
      status: 'pending',
      next_attempt_at: now,
      deadline_at: new Date(now.getTime() + DELIVERY_DEADLINE_MS),
      created_at: now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  await announceDeliveries(trx)
  return row
}

/** Returns the time at which an event was written; `undefined` once retention has removed it. */
export async function eventCreatedAt(db: Kysely<Database>, eventId: string): Promise<Date | undefined> {
  const row = await db.selectFrom('event').select('created_at').where('id', '=', eventId).executeTakeFirst()
  return row?.created_at
}

/** Locks every generation of the same event to the same endpoint, oldest first. */
export function lockGenerations(
  trx: Transaction<Database>,
  { endpoint_id, event_id }: Pick<WebhookDeliveryRow, 'endpoint_id' | 'event_id'>,
): Promise<WebhookDeliveryRow[]> {
  return trx
    .selectFrom('webhook_delivery')
    .selectAll()
    .where('endpoint_id', '=', endpoint_id)
    .where('event_id', '=', event_id)
    .orderBy('generation')
    .forUpdate()
    .execute()
}

/** Creates the next generation of a delivery: the same event, pinned to the current URL and secrets. */
export async function insertRedelivery(
  trx: Transaction<Database>,
  of: WebhookDeliveryRow,
  pin: { generation: number; version: number; secretIds: string[]; now: Date },
): Promise<WebhookDeliveryRow> {
  const row = await trx
    .insertInto('webhook_delivery')
    .values({
      id: newId(),
      account_id: of.account_id,
      endpoint_id: of.endpoint_id,
      event_id: of.event_id,
      event_type: of.event_type,
      generation: pin.generation,
      redelivery_of: of.id,
      status: 'pending',
      pinned_version: pin.version,
      pinned_secrets: pin.secretIds,
      next_attempt_at: pin.now,
      deadline_at: new Date(pin.now.getTime() + DELIVERY_DEADLINE_MS),
      created_at: pin.now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  await announceDeliveries(trx)
  return row
}

async function announceDeliveries(trx: Transaction<Database>): Promise<void> {
  await sql`select pg_notify(${WEBHOOK_CHANNEL}, '')`.execute(trx)
}

const ofAccount = (db: Kysely<Database>, accountId: string) =>
  db.selectFrom('webhook_delivery').selectAll().where('account_id', '=', accountId)
