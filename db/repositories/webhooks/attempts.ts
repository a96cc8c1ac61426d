import { type Kysely, sql, type Transaction } from 'kysely'
import type { AttemptVerdict } from '../../../domain/webhooks/outcome.ts'
import type { Database } from '../../tables.ts'
import type { WebhookDeliveryRow } from '../../tables/webhooks.ts'

/** An attempt that has begun. Its row prevents any other sender from making it. */
export interface OpenedAttempt {
  delivery: Pick<
    WebhookDeliveryRow,
    'id' | 'account_id' | 'endpoint_id' | 'event_id' | 'pinned_secrets' | 'created_at'
  >
  number: number
  urlSealed: Buffer
  /** The version of the URL in `urlSealed`; the response of an earlier URL does not affect the current one. */
  destinationVersion: number
  payload: Buffer
}

/** The outcome of an attempt, and the next state of its delivery. */
export interface ClosedAttempt {
  deliveryId: string
  number: number
  finishedAt: Date
  verdict: AttemptVerdict
  status: 'succeeded' | 'failed' | 'retrying' | 'dead_lettered'
  nextAttemptAt: Date | null
}

/** The time that a sender has to close the attempt; after that it counts as interrupted. */
const SEND_TIMEOUT_S = 40

/** The free capacity of a dispatcher. */
export interface DispatcherCapacity {
  /** The attempts in flight, by endpoint. */
  busy: readonly { endpointId: string; accountId: string; count: number }[]
  perEndpoint: number
  perAccount: number
  /** Endpoints that are slow or failing; they get less capacity, both individually and in total. */
  slow: readonly string[]
  perSlowEndpoint: number
  perAllSlow: number
  limit: number
  now: Date
}

interface PickedRow {
  id: string
  account_id: string
  endpoint_id: string
  event_id: string
  pinned_secrets: string[] | null
  created_at: Date
  url_sealed: Buffer
  destination_version: number
  payload: Buffer
}

/**
 * Begins first attempts fairly: for each endpoint with new deliveries, as many as the endpoint and its account have
 * capacity for, oldest first. When capacity is short, accounts take turns, and so do the endpoints of each account.
 * Concurrent dispatchers never pick the same row.
 */
export async function pickFreshDeliveries(
  db: Kysely<Database>,
  { busy, perEndpoint, perAccount, slow, perSlowEndpoint, perAllSlow, limit, now }: DispatcherCapacity,
): Promise<OpenedAttempt[]> {
  const { rows } = await sql<PickedRow>`
    with recursive waiting as (
      (select endpoint_id from webhook_delivery where status = 'pending' order by endpoint_id limit 1)
      union all
      select (select d.endpoint_id from webhook_delivery d
        where d.status = 'pending' and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
      from waiting w where w.endpoint_id is not null
    ), busy as (
      select endpoint_id, account_id, count, endpoint_id = any(${slow}::uuid[]) as is_slow
      from unnest(${busy.map((b) => b.endpointId)}::uuid[], ${busy.map((b) => b.accountId)}::uuid[],
        ${busy.map((b) => b.count)}::int[]) as b(endpoint_id, account_id, count)
    ), fresh as (
      select first.id, e.account_id, e.id = any(${slow}::uuid[]) as is_slow,
        coalesce(busy.count, 0) + row_number() over (partition by e.id order by first.id) as turn
      from waiting
      join webhook_endpoint e on e.id = waiting.endpoint_id
      left join busy on busy.endpoint_id = e.id
      cross join lateral (
        select d.id from webhook_delivery d
        where d.endpoint_id = e.id and d.status = 'pending' and d.deadline_at > ${now}
          and (d.pinned_version is null or d.pinned_version = e.destination_version)
        order by d.id
        limit least(${limit}::int, greatest(0, coalesce(-busy.count, 0)
          + case when e.id = any(${slow}::uuid[]) then ${perSlowEndpoint}::int else ${perEndpoint}::int end))
      ) first
      where e.enabled and e.deleted_at is null and e.verification_status = 'active'
    ), ranked as (
      select fresh.id, fresh.is_slow,
        coalesce((select sum(count) from busy where busy.account_id = fresh.account_id), 0)
          + row_number() over (partition by account_id order by turn, id) as of_account,
        coalesce((select sum(count) from busy where busy.is_slow), 0)
          + row_number() over (partition by is_slow order by turn, id) as of_slow
      from fresh
    ), picked as (
      select d.id from webhook_delivery d
      where d.status = 'pending' and d.id = any(array(
        select id from ranked
        where of_account <= ${perAccount}::int and (not is_slow or of_slow <= ${perAllSlow}::int)
        order by of_account limit ${limit}))
      for update skip locked
    ), begun as (
      update webhook_delivery d set status = 'delivering', attempts = 1,
        next_attempt_at = ${now}::timestamptz + make_interval(secs => ${SEND_TIMEOUT_S})
      from picked where d.id = picked.id
      returning d.*
    ), opened as (
      insert into webhook_attempt (delivery_id, number, started_at)
      select id, 1, ${now}::timestamptz from begun returning delivery_id
    )
    select begun.id, begun.account_id, begun.endpoint_id, begun.event_id, begun.pinned_secrets, begun.created_at,
      endpoint.url_sealed, endpoint.destination_version, event.payload
    from begun join opened on opened.delivery_id = begun.id
    join webhook_endpoint endpoint on endpoint.id = begun.endpoint_id
    join event on event.id = begun.event_id`.execute(db)
  return rows.map((row) => openedOf(row, 1))
}

const openedOf = (
  { url_sealed, destination_version, payload, ...delivery }: PickedRow,
  number: number,
): OpenedAttempt => ({
  delivery,
  number,
  urlSealed: url_sealed,
  destinationVersion: destination_version,
  payload,
})

/** The next attempt of a delivery, or what prevents it. */
export type AttemptPlan =
  | { state: 'ended' }
  /** The deadline has passed while it waited. */
  | { state: 'expired' }
  /** An attempt is being made. If its sender has died, it is closed as interrupted at this time. */
  | { state: 'busy'; until: Date }
  | { state: 'unverified' }
  | { state: 'due'; attempt: number; at: Date; lastError: string | null }

/** Reads the next step of a delivery. */
export async function planAttempt(db: Kysely<Database>, deliveryId: string, now: Date): Promise<AttemptPlan> {
  const row = await db
    .selectFrom('webhook_delivery as d')
    .innerJoin('webhook_endpoint as e', 'e.id', 'd.endpoint_id')
    .leftJoin('webhook_attempt as a', (join) =>
      join.onRef('a.delivery_id', '=', 'd.id').onRef('a.number', '=', 'd.attempts'),
    )
    .select([
      'd.status',
      'd.attempts',
      'd.next_attempt_at',
      'd.deadline_at',
      'e.verification_status',
      'e.enabled',
      'a.error_code',
      'a.outcome',
    ])
    .where('d.id', '=', deliveryId)
    .executeTakeFirst()
  if (!row?.next_attempt_at) return { state: 'ended' }
  if (row.status === 'delivering') return { state: 'busy', until: row.next_attempt_at }
  // The deliveries of a disabled endpoint are being cancelled.
  if (row.status !== 'retrying' || !row.enabled) return { state: 'ended' }
  if (row.deadline_at <= now) return { state: 'expired' }
  if (row.verification_status !== 'active' && row.next_attempt_at <= now) return { state: 'unverified' }
  return {
    state: 'due',
    attempt: row.attempts + 1,
    at: row.next_attempt_at,
    lastError: row.error_code ?? row.outcome,
  }
}

/** Finds the endpoint of a delivery. */
export async function endpointOfDelivery(
  db: Kysely<Database>,
  deliveryId: string,
): Promise<string | undefined> {
  const row = await db
    .selectFrom('webhook_delivery')
    .select('endpoint_id')
    .where('id', '=', deliveryId)
    .executeTakeFirst()
  return row?.endpoint_id
}

/** Begins one later attempt; `undefined` when the delivery has ended or moved on, or its endpoint is not verified. */
export async function openAttempt(
  db: Kysely<Database>,
  { deliveryId, number, now }: { deliveryId: string; number: number; now: Date },
): Promise<OpenedAttempt | undefined> {
  const { rows } = await sql<PickedRow>`
    with begun as (
      update webhook_delivery d set status = 'delivering', attempts = ${number}::int,
        next_attempt_at = ${now}::timestamptz + make_interval(secs => ${SEND_TIMEOUT_S})
      from webhook_endpoint e
      where d.id = ${deliveryId} and d.status = 'retrying' and d.attempts = ${number - 1}::int
        and d.deadline_at > ${now} and e.id = d.endpoint_id and e.enabled and e.deleted_at is null and e.verification_status = 'active'
        and (d.pinned_version is null or d.pinned_version = e.destination_version)
      returning d.*
    ), opened as (
      insert into webhook_attempt (delivery_id, number, started_at)
      select id, ${number}::int, ${now}::timestamptz from begun returning delivery_id
    )
    select begun.id, begun.account_id, begun.endpoint_id, begun.event_id, begun.pinned_secrets, begun.created_at,
      endpoint.url_sealed, endpoint.destination_version, event.payload
    from begun join opened on opened.delivery_id = begun.id
    join webhook_endpoint endpoint on endpoint.id = begun.endpoint_id
    join event on event.id = begun.event_id`.execute(db)
  const [row] = rows
  return row && openedOf(row, number)
}

/**
 * Closes attempts and updates their deliveries. Repeating it changes nothing, because only an open attempt is closed,
 * and only its own delivery is updated. Deliveries are locked in id order, as in every statement that locks several.
 */
export async function closeAttempts(
  trx: Transaction<Database>,
  closed: readonly ClosedAttempt[],
): Promise<void> {
  await sql`
    with given as (
      select * from unnest(${closed.map((c) => c.deliveryId)}::uuid[], ${closed.map((c) => c.number)}::int[],
        ${closed.map((c) => c.finishedAt)}::timestamptz[], ${closed.map((c) => c.verdict.outcome)}::text[],
        ${closed.map((c) => c.verdict.errorCode)}::text[], ${closed.map((c) => c.verdict.statusClass)}::text[],
        ${closed.map((c) => c.status)}::text[], ${closed.map((c) => c.nextAttemptAt)}::timestamptz[])
        as g(delivery_id, number, finished_at, outcome, error_code, status_class, status, next_attempt_at)
    ), locked as materialized (
      select id from webhook_delivery where id = any(${closed.map((c) => c.deliveryId)}::uuid[])
      order by id for no key update
    ), ended as (
      update webhook_attempt a set finished_at = greatest(g.finished_at, a.started_at), outcome = g.outcome,
        error_code = g.error_code, status_class = g.status_class
      from given g join locked on locked.id = g.delivery_id
      where a.delivery_id = g.delivery_id and a.number = g.number and a.outcome is null
      returning a.delivery_id, a.number
    )
    update webhook_delivery d set status = g.status, next_attempt_at = g.next_attempt_at,
      completed_at = case when g.status = 'retrying' then null else g.finished_at end
    from given g join ended on ended.delivery_id = g.delivery_id and ended.number = g.number
    where d.id = g.delivery_id and d.status = 'delivering' and d.attempts = g.number`.execute(trx)
}

/** An attempt whose sender died: it is closed as interrupted, and its delivery is planned again. */
export interface InterruptedAttempt {
  deliveryId: string
  accountId: string
  number: number
  createdAt: Date
}

/** Finds open attempts whose time is up. */
export function findInterrupted(
  db: Kysely<Database>,
  now: Date,
  limit: number,
): Promise<InterruptedAttempt[]> {
  return db
    .selectFrom('webhook_delivery')
    .select(['id as deliveryId', 'account_id as accountId', 'attempts as number', 'created_at as createdAt'])
    .where('status', '=', 'delivering')
    .where('next_attempt_at', '<', now)
    .limit(limit)
    .execute()
}

/** Closes open attempts whose time is up and whose delivery has ended in the meantime. */
export async function closeAbandonedAttempts(db: Kysely<Database>, now: Date): Promise<void> {
  await sql`
    update webhook_attempt a set outcome = 'interrupted', error_code = 'interrupted', finished_at = ${now}
    from webhook_delivery d
    where a.outcome is null and a.started_at < ${now}::timestamptz - make_interval(secs => ${SEND_TIMEOUT_S})
      and d.id = a.delivery_id and d.status <> 'delivering'`.execute(db)
}
