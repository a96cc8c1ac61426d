import { type Kysely, type Selectable, sql, type Transaction } from 'kysely'
import { at } from '../../../domain/at.ts'
import { newId } from '../../../domain/ids.ts'
import type { CopyDemand, CopyScale } from '../../../domain/placement/copies.ts'
import type { Database } from '../../tables.ts'
import type { EndpointScalingTable } from '../../tables/nodes.ts'
import { bumpCache } from '../platform/cache-versions.ts'
import { insertEvents } from '../webhooks/events.ts'

/** Measurements older than this do not count. */
const DEMAND_TTL_S = 6
/** The maximum number of queued tasks that are read; more would not change a decision. */
const MAX_QUEUED = 2_000

/** Stores a gateway's measurements of models. */
export async function recordDemand(
  db: Kysely<Database>,
  gatewayId: string,
  demand: readonly (CopyDemand & { modelKey: string })[],
): Promise<void> {
  if (demand.length === 0) return
  await db
    .insertInto('model_demand')
    .values(
      demand.map(({ modelKey, inFlight, waiting, serviceMs }) => ({
        gateway_id: gatewayId,
        model_key: modelKey,
        in_flight: inFlight,
        waiting,
        service_ms: serviceMs,
        measured_at: sql<Date>`now()`,
      })),
    )
    .onConflict((oc) =>
      oc.columns(['model_key', 'gateway_id']).doUpdateSet((eb) => ({
        in_flight: eb.ref('excluded.in_flight'),
        waiting: eb.ref('excluded.waiting'),
        service_ms: eb.ref('excluded.service_ms'),
        measured_at: eb.ref('excluded.measured_at'),
      })),
    )
    .execute()
}

/** Returns the demand for each of these models, summed over all gateways; queued tasks count as waiting. */
export async function readDemand(
  db: Kysely<Database>,
  modelKeys: readonly string[],
): Promise<Map<string, CopyDemand>> {
  const { rows } = await sql<{ model_key: string; in_flight: number; waiting: number; service_ms: number }>`
    with queued as (
      select e.model_key, least(count(*), ${MAX_QUEUED})::float8 as tasks from task t join endpoint e on e.id = t.endpoint_id
      where t.status not in ('succeeded', 'failed', 'running') and e.model_key = any(${modelKeys}::text[])
        and e.deleted_at is null and e.status in ('active', 'deprecated')
      group by e.model_key
    ), asked as (
      select model_key, sum(in_flight) as in_flight, sum(waiting) as waiting,
        coalesce(sum(service_ms * in_flight) / nullif(sum(in_flight), 0), max(service_ms)) as service_ms
      from model_demand where model_key = any(${modelKeys}::text[])
        and measured_at > now() - make_interval(secs => ${DEMAND_TTL_S})
      group by model_key
    )
    select model_key, coalesce(in_flight, 0) as in_flight, coalesce(waiting, 0) + coalesce(tasks, 0) as waiting,
      coalesce(service_ms, 0) as service_ms
    from asked full join queued using (model_key)`.execute(db)
  return new Map(
    rows.map(({ model_key, in_flight, waiting, service_ms }) => [
      model_key,
      { inFlight: in_flight, waiting, serviceMs: service_ms },
    ]),
  )
}

/** The last decision about a model, with its time. */
export interface StoredScale extends CopyScale {
  readonly decidedAt: Date
}

/** Returns how many copies of a model should be loaded; undefined before the first decision about it. */
export async function decidedCopies(db: Kysely<Database>, modelKey: string): Promise<number | undefined> {
  const row = await db
    .selectFrom('model_scale')
    .select('copies')
    .where('model_key', '=', modelKey)
    .executeTakeFirst()
  return row?.copies
}

/** Returns the last decisions, by model. */
export async function readScales(db: Kysely<Database>): Promise<Map<string, StoredScale>> {
  const rows = await db.selectFrom('model_scale').selectAll().execute()
  return new Map(
    rows.map(({ model_key, copies, waited_s, needed_at, decided_at }) => [
      model_key,
      { copies, waitedS: waited_s, neededAt: needed_at.map(Number), decidedAt: decided_at },
    ]),
  )
}

/** Stores decisions, by model. */
export async function writeScales(
  trx: Transaction<Database>,
  scales: ReadonlyMap<string, CopyScale>,
  now: Date,
): Promise<void> {
  if (scales.size === 0) return
  await trx
    .insertInto('model_scale')
    .values(
      [...scales].map(([model_key, { copies, waitedS, neededAt }]) => ({
        model_key,
        copies,
        waited_s: waitedS,
        needed_at: neededAt.map((at) => new Date(at)),
        decided_at: now,
      })),
    )
    .onConflict((oc) =>
      oc.column('model_key').doUpdateSet((eb) => ({
        copies: eb.ref('excluded.copies'),
        waited_s: eb.ref('excluded.waited_s'),
        needed_at: eb.ref('excluded.needed_at'),
        decided_at: eb.ref('excluded.decided_at'),
      })),
    )
    .execute()
}

/** Returns the database's current time. */
export async function databaseTime(db: Kysely<Database>): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
  return at(rows, 0).now
}

/** Deletes the decisions about all models except these. */
export async function dropOtherScales(
  trx: Transaction<Database>,
  modelKeys: readonly string[],
): Promise<void> {
  await trx
    .deleteFrom('model_scale')
    .where(sql<boolean>`model_key <> all(${modelKeys}::text[])`)
    .execute()
}

/** Returns the models of which an endpoint reserves copies, even if the endpoint is paused. */
export async function reservedModels(
  trx: Transaction<Database>,
  modelKeys: readonly string[],
): Promise<Set<string>> {
  const rows = await trx
    .selectFrom('endpoint')
    .innerJoin('endpoint_scaling', 'endpoint_scaling.endpoint_id', 'endpoint.id')
    .select('endpoint.model_key')
    .distinct()
    .where('endpoint.model_key', 'in', [...modelKeys])
    .where('endpoint.deleted_at', 'is', null)
    .where('endpoint_scaling.reserved', '>', 0)
    .execute()
  return new Set(rows.map(({ model_key }) => model_key))
}

/** A change in a model's number of copies. */
export interface CopyChange {
  readonly modelKey: string
  readonly before: number
  readonly copies: number
  readonly reason: string
}

/**
 * The maximum number of endpoints for which a change is recorded, because many may share a model; those that reserve
 * copies come first.
 */
const MAX_RECORDED = 100

/** Records a change for the endpoints that scale the model, with an event. */
export async function recordChange(
  trx: Transaction<Database>,
  { modelKey, before, copies, reason }: CopyChange,
  now: Date,
): Promise<void> {
  const endpoints = await trx
    .selectFrom('endpoint')
    .innerJoin('endpoint_scaling', 'endpoint_scaling.endpoint_id', 'endpoint.id')
    .select(['endpoint.id', 'endpoint.account_id'])
    .where('endpoint.model_key', '=', modelKey)
    .where('endpoint.deleted_at', 'is', null)
    .orderBy('endpoint_scaling.reserved', 'desc')
    .orderBy('endpoint_scaling.updated_at', 'desc')
    .limit(MAX_RECORDED)
    .execute()
  if (endpoints.length === 0) return
  const changes = endpoints.map(({ id, account_id }) => ({ id: newId(), endpoint_id: id, account_id }))
  await trx
    .insertInto('scaling_change')
    .values(
      changes.map(({ id, endpoint_id }) => ({
        id,
        endpoint_id,
        model_key: modelKey,
        copies_before: before,
        copies,
        reason,
        created_at: now,
      })),
    )
    .execute()
  const status = copies > before ? 'scaled_up' : 'scaled_down'
  await insertEvents(
    trx,
    changes.map(({ id, endpoint_id, account_id }) => ({
      accountId: account_id,
      type: 'endpoint.scaled',
      resource: { id, object: 'scaling_change', status },
      resourceUrl: `/api/builder/v1/endpoints/${endpoint_id}/scaling`,
    })),
    now,
  )
}

/** Lists the last changes to an endpoint's copies, newest first. */
export function listChanges(db: Kysely<Database>, endpointId: string, limit: number) {
  return db
    .selectFrom('scaling_change')
    .select(['id', 'copies_before', 'copies', 'reason', 'created_at'])
    .where('endpoint_id', '=', endpointId)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

/** The settings of an endpoint's copies. */
export type ScalingRow = Selectable<EndpointScalingTable>

export function findScaling(db: Kysely<Database>, endpointId: string): Promise<ScalingRow | undefined> {
  return db
    .selectFrom('endpoint_scaling')
    .selectAll()
    .where('endpoint_id', '=', endpointId)
    .executeTakeFirst()
}

/** Stores the settings, and makes gateways send nodes a changed idle timeout. */
export async function writeScaling(
  trx: Transaction<Database>,
  { schedule, ...fields }: Omit<ScalingRow, 'updated_at'>,
  now: Date,
): Promise<void> {
  const values = { ...fields, schedule: JSON.stringify(schedule), updated_at: now }
  await trx
    .insertInto('endpoint_scaling')
    .values(values)
    .onConflict((oc) => oc.column('endpoint_id').doUpdateSet(values))
    .execute()
  await bumpCache(trx, 'node')
}

/** Returns an account's copy quota, and the copies that its endpoints other than `exceptId` reserve. */
export async function copyQuota(
  db: Kysely<Database>,
  {
    accountId,
    exceptId,
    defaultCopies,
  }: { accountId: string; exceptId: string | null; defaultCopies: number },
): Promise<{ copies: number; reserved: number }> {
  const { rows } = await sql<{ copies: number; reserved: number }>`
    select coalesce(account.copy_quota, ${defaultCopies}) as copies, coalesce((
      select sum(s.reserved) from endpoint_scaling s join endpoint e on e.id = s.endpoint_id
      where e.account_id = account.id and e.deleted_at is null and e.id is distinct from ${exceptId}::uuid
    ), 0)::int as reserved
    from account where account.id = ${accountId}`.execute(db)
  return rows[0] ?? { copies: defaultCopies, reserved: 0 }
}
