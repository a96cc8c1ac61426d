import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** The number of events that one pass fans out, per account and across all accounts; accounts take turns. */
const EVENTS_PER_ACCOUNT = 64
const EVENTS_PER_PASS = 256
/** The maximum number of open deliveries per endpoint; further events wait until some of them have ended. */
export const MAX_OPEN_PER_ENDPOINT = 5_000
/** The number of waiting events per endpoint that one pass turns into deliveries. */
const DRAINED_PER_PASS = 500

const deadline = sql`interval '48 hours'`
const open = sql`('pending', 'delivering', 'retrying')`

/**
 * Fans out events: each endpoint that was subscribed, enabled and verified at the time of the event gets one delivery.
 * If an endpoint has too many open deliveries, only its own events wait. Safe to repeat and to run in several
 * processes, because an event is claimed once, under its row's lock. Returns the number of events claimed.
 */
export async function fanOutEvents(
  db: Kysely<Database>,
  { maxOpen = MAX_OPEN_PER_ENDPOINT }: { maxOpen?: number } = {},
): Promise<number> {
  const { rows } = await sql<{ taken: number }>`
    with recursive waiting as (
      (select account_id from webhook_outbox order by account_id limit 1)
      union all
      select (select o.account_id from webhook_outbox o
        where o.account_id > w.account_id order by o.account_id limit 1)
      from waiting w where w.account_id is not null
    ), chosen as (
      select first.event_id from waiting
      cross join lateral (
        select event_id, row_number() over (order by event_id) as turn from webhook_outbox o
        where o.account_id = waiting.account_id order by event_id limit ${EVENTS_PER_ACCOUNT}
      ) first
      order by first.turn limit ${EVENTS_PER_PASS}
    ), taken as (
      delete from webhook_outbox where event_id in (
        select event_id from webhook_outbox where event_id = any(array(select event_id from chosen))
        for update skip locked)
      returning *
    ), target as (
      select taken.*, endpoint.id as endpoint_id from taken
      join webhook_endpoint endpoint on endpoint.account_id = taken.account_id
      where endpoint.deleted_at is null and endpoint.enabled and endpoint.verification_status = 'active'
        and coalesce(endpoint.active_since <= taken.created_at, true)
        and taken.event_type = any (endpoint.event_types)
    ), crowded as (
      select endpoint_id from (select distinct endpoint_id from target) one
      where exists (select 1 from webhook_overflow o where o.endpoint_id = one.endpoint_id)
        or (select count(*) from (select 1 from webhook_delivery d
          where d.endpoint_id = one.endpoint_id and d.status in ${open} limit ${maxOpen}) counted) >= ${maxOpen}
    ), kept as (
      insert into webhook_overflow (endpoint_id, event_id, account_id, event_type, created_at)
      select endpoint_id, event_id, account_id, event_type, created_at from target
      where endpoint_id in (select endpoint_id from crowded)
      on conflict do nothing
    ), written as (
      insert into webhook_delivery (id, account_id, endpoint_id, event_id, event_type, status, next_attempt_at, deadline_at)
      select uuidv7(), account_id, endpoint_id, event_id, event_type, 'pending', now(), created_at + ${deadline}
      from target where endpoint_id not in (select endpoint_id from crowded)
      on conflict do nothing
    )
    select count(*)::int as taken from taken`.execute(db)
  return rows[0]?.taken ?? 0
}

/**
 * Turns events that waited for an endpoint into deliveries, oldest first, up to the endpoint's free capacity. Events
 * older than 48 hours become dead letters, which can be listed and redelivered by hand. Safe to repeat.
 */
export async function drainOverflow(
  db: Kysely<Database>,
  { maxOpen = MAX_OPEN_PER_ENDPOINT }: { maxOpen?: number } = {},
): Promise<void> {
  await sql`
    with recursive waiting as (
      (select endpoint_id from webhook_overflow order by endpoint_id limit 1)
      union all
      select (select o.endpoint_id from webhook_overflow o
        where o.endpoint_id > w.endpoint_id order by o.endpoint_id limit 1)
      from waiting w where w.endpoint_id is not null
    ), chosen as (
      select waiting.endpoint_id, first.event_id from waiting
      cross join lateral (
        select ${maxOpen} - count(*) as free from (select 1 from webhook_delivery d
          where d.endpoint_id = waiting.endpoint_id and d.status in ${open} limit ${maxOpen}) counted
      ) room
      cross join lateral (
        (select event_id from webhook_overflow o where o.endpoint_id = waiting.endpoint_id
          order by event_id limit least(room.free, ${DRAINED_PER_PASS}))
        union
        (select event_id from webhook_overflow o
          where o.endpoint_id = waiting.endpoint_id and o.created_at <= now() - ${deadline}
          order by event_id limit ${DRAINED_PER_PASS})
      ) first
      where waiting.endpoint_id is not null
    ), locked as materialized (
      select o.endpoint_id, o.event_id from webhook_overflow o
      join chosen using (endpoint_id, event_id) order by o.endpoint_id, o.event_id for update of o skip locked
    ), taken as (
      delete from webhook_overflow o using locked
      where o.endpoint_id = locked.endpoint_id and o.event_id = locked.event_id
      returning o.*, o.created_at <= now() - ${deadline} as is_late
    )
    insert into webhook_delivery
      (id, account_id, endpoint_id, event_id, event_type, status, next_attempt_at, deadline_at, completed_at)
    select uuidv7(), account_id, endpoint_id, event_id, event_type,
      case when is_late then 'dead_lettered' else 'pending' end, case when is_late then null else now() end,
      created_at + ${deadline}, case when is_late then now() end
    from taken on conflict do nothing`.execute(db)
}

/** Drops the waiting events of an endpoint that is disabled or deleted. */
export async function dropOverflow(db: Kysely<Database>, endpointId: string): Promise<void> {
  await db.deleteFrom('webhook_overflow').where('endpoint_id', '=', endpointId).execute()
}
