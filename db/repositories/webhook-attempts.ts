import { type Kysely, sql } from 'kysely'
import type { AttemptVerdict } from '../../domain/webhook-outcome.ts'
import type { Database } from '../tables.ts'
import type { WebhookDeliveryRow } from '../tables/webhooks.ts'
import { insertWorkflowStart, type WorkflowStart } from './workflow-starts.ts'

/** An attempt that has begun: its row stands, and nobody else makes it. */
export interface OpenedAttempt {
  delivery: Pick<
    WebhookDeliveryRow,
    'id' | 'account_id' | 'endpoint_id' | 'event_id' | 'pinned_secrets' | 'created_at'
  >
  number: number
  startedAt: Date
  urlSealed: Buffer
  payload: Buffer
}

/** How an attempt ended, and what becomes of its delivery. */
export interface ClosedAttempt {
  deliveryId: string
  number: number
  finishedAt: Date
  verdict: AttemptVerdict
  status: 'succeeded' | 'failed' | 'retrying' | 'dead_lettered'
  nextAttemptAt: Date | null
}

/** Whoever sends has so long to close the attempt; after that it counts as interrupted. */
const SENDING_S = 40

/** What a dispatcher has room for. */
export interface Picking {
  /** How many attempts are under way to each destination. */
  busy: ReadonlyMap<string, number>
  perEndpoint: number
  /** Destinations that hang or fail, which get less room. */
  slow: readonly string[]
  perSlowEndpoint: number
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
  started_at: Date
  url_sealed: Buffer
  payload: Buffer
}

/**
 * Begins first attempts, fairly: of every destination with fresh deliveries as many as it has room for, oldest first, and
 * where there is too little room those with the fewest under way. Several dispatchers never pick the same row.
 */
export async function pickFreshDeliveries(
  db: Kysely<Database>,
  { busy, perEndpoint, slow, perSlowEndpoint, limit, now }: Picking,
): Promise<OpenedAttempt[]> {
  const { rows } = await sql<PickedRow>`
    with recursive waiting as (
      (select endpoint_id from webhook_delivery where status = 'pending' order by endpoint_id limit 1)
      union all
      select (select d.endpoint_id from webhook_delivery d
        where d.status = 'pending' and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
      from waiting w where w.endpoint_id is not null
    ), busy as (
      select * from unnest(${[...busy.keys()]}::uuid[], ${[...busy.values()]}::int[]) as b(endpoint_id, count)
    ), picked as (
      select fresh.id from waiting
      join webhook_endpoint e on e.id = waiting.endpoint_id
      left join busy on busy.endpoint_id = waiting.endpoint_id
      cross join lateral (
        select d.id from webhook_delivery d
        where d.endpoint_id = waiting.endpoint_id and d.status = 'pending' and d.deadline_at > ${now}
          and e.enabled and e.deleted_at is null and e.verification_status = 'active'
          and (d.pinned_version is null or d.pinned_version = e.destination_version)
        order by d.id
        limit greatest(case when e.id = any(${slow}::uuid[]) then ${perSlowEndpoint}::int else ${perEndpoint}::int end
          - coalesce(busy.count, 0), 0)
        for update skip locked
      ) fresh
      order by coalesce(busy.count, 0) + row_number() over (partition by waiting.endpoint_id order by fresh.id)
      limit ${limit}
    ), begun as (
      update webhook_delivery d set status = 'delivering', attempts = 1,
        next_attempt_at = ${now}::timestamptz + make_interval(secs => ${SENDING_S})
      from picked where d.id = picked.id and d.status = 'pending'
      returning d.*
    ), opened as (
      insert into webhook_attempt (delivery_id, number, started_at)
      select id, 1, ${now}::timestamptz from begun returning delivery_id, started_at
    )
    select begun.id, begun.account_id, begun.endpoint_id, begun.event_id, begun.pinned_secrets, begun.created_at,
      opened.started_at, endpoint.url_sealed, event.payload
    from begun join opened on opened.delivery_id = begun.id
    join webhook_endpoint endpoint on endpoint.id = begun.endpoint_id
    join event on event.id = begun.event_id`.execute(db)
  return rows.map(({ started_at, url_sealed, payload, ...delivery }) => ({
    delivery,
    number: 1,
    startedAt: started_at,
    urlSealed: url_sealed,
    payload,
  }))
}

/** What stands between a delivery and its next attempt. */
export type AttemptPlan =
  | { state: 'ended' }
  /** Its deadline has passed while it waited. */
  | { state: 'expired' }
  /** Somebody is making an attempt, or died doing so and will be missed then. */
  | { state: 'busy'; until: Date }
  | { state: 'unverified' }
  | { state: 'due'; attempt: number; at: Date; lastError: string | null }

/** Reads what a delivery waits for. */
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
      'a.error_code',
      'a.outcome',
    ])
    .where('d.id', '=', deliveryId)
    .executeTakeFirst()
  if (!row?.next_attempt_at) return { state: 'ended' }
  if (row.status === 'delivering') return { state: 'busy', until: row.next_attempt_at }
  if (row.status !== 'retrying') return { state: 'ended' }
  if (row.deadline_at <= now) return { state: 'expired' }
  if (row.verification_status !== 'active' && row.next_attempt_at <= now) return { state: 'unverified' }
  return {
    state: 'due',
    attempt: row.attempts + 1,
    at: row.next_attempt_at,
    lastError: row.error_code ?? row.outcome,
  }
}

/** The destination of a delivery. */
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

/** Begins one later attempt; `undefined` when the delivery has ended, moved on, or its destination is not verified. */
export async function openAttempt(
  db: Kysely<Database>,
  { deliveryId, number, now }: { deliveryId: string; number: number; now: Date },
): Promise<OpenedAttempt | undefined> {
  const { rows } = await sql<PickedRow>`
    with begun as (
      update webhook_delivery d set status = 'delivering', attempts = ${number}::int,
        next_attempt_at = ${now}::timestamptz + make_interval(secs => ${SENDING_S})
      from webhook_endpoint e
      where d.id = ${deliveryId} and d.status = 'retrying' and d.attempts = ${number - 1}::int
        and d.deadline_at > ${now} and e.id = d.endpoint_id and e.enabled and e.deleted_at is null and e.verification_status = 'active'
        and (d.pinned_version is null or d.pinned_version = e.destination_version)
      returning d.*
    ), opened as (
      insert into webhook_attempt (delivery_id, number, started_at)
      select id, ${number}::int, ${now}::timestamptz from begun returning delivery_id, started_at
    )
    select begun.id, begun.account_id, begun.endpoint_id, begun.event_id, begun.pinned_secrets, begun.created_at,
      opened.started_at, endpoint.url_sealed, event.payload
    from begun join opened on opened.delivery_id = begun.id
    join webhook_endpoint endpoint on endpoint.id = begun.endpoint_id
    join event on event.id = begun.event_id`.execute(db)
  const [row] = rows
  if (!row) return undefined
  const { started_at, url_sealed, payload, ...delivery } = row
  return { delivery, number, startedAt: started_at, urlSealed: url_sealed, payload }
}

/**
 * Closes attempts and moves their deliveries on, in one transaction with the workflows that carry on. Repeating it changes
 * nothing: only an open attempt is closed, and only its own delivery moved.
 */
export async function closeAttempts(
  db: Kysely<Database>,
  closed: readonly ClosedAttempt[],
  starts: readonly WorkflowStart[],
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql`
      with given as (
        select * from unnest(${closed.map((c) => c.deliveryId)}::uuid[], ${closed.map((c) => c.number)}::int[],
          ${closed.map((c) => c.finishedAt)}::timestamptz[], ${closed.map((c) => c.verdict.outcome)}::text[],
          ${closed.map((c) => c.verdict.errorCode)}::text[], ${closed.map((c) => c.verdict.statusClass)}::text[],
          ${closed.map((c) => c.status)}::text[], ${closed.map((c) => c.nextAttemptAt)}::timestamptz[])
          as g(delivery_id, number, finished_at, outcome, error_code, status_class, status, next_attempt_at)
      ), ended as (
        update webhook_attempt a set finished_at = g.finished_at, outcome = g.outcome, error_code = g.error_code,
          status_class = g.status_class
        from given g where a.delivery_id = g.delivery_id and a.number = g.number and a.outcome is null
        returning a.delivery_id, a.number
      )
      update webhook_delivery d set status = g.status, next_attempt_at = g.next_attempt_at,
        completed_at = case when g.status = 'retrying' then null else g.finished_at end
      from given g join ended on ended.delivery_id = g.delivery_id and ended.number = g.number
      where d.id = g.delivery_id and d.status = 'delivering' and d.attempts = g.number`.execute(trx)
    for (const start of starts) await insertWorkflowStart(trx, start)
  })
}

/** An attempt whose sender died: closed as interrupted, its delivery to be planned anew. */
export interface Interrupted {
  deliveryId: string
  accountId: string
  number: number
  createdAt: Date
}

/** Attempts that are open past their time. */
export function findInterrupted(db: Kysely<Database>, now: Date, limit: number): Promise<Interrupted[]> {
  return db
    .selectFrom('webhook_delivery')
    .select(['id as deliveryId', 'account_id as accountId', 'attempts as number', 'created_at as createdAt'])
    .where('status', '=', 'delivering')
    .where('next_attempt_at', '<', now)
    .limit(limit)
    .execute()
}

/** Closes attempts that are open past their time though their delivery has ended meanwhile. */
export async function closeAbandonedAttempts(db: Kysely<Database>, now: Date): Promise<void> {
  await sql`
    update webhook_attempt a set outcome = 'interrupted', error_code = 'interrupted', finished_at = ${now}
    from webhook_delivery d
    where a.outcome is null and a.started_at < ${now}::timestamptz - make_interval(secs => ${SENDING_S})
      and d.id = a.delivery_id and d.status <> 'delivering'`.execute(db)
}
