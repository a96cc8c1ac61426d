import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { PinPlace, PinPlan, WarmPin, WarmWant } from '../../../domain/placement/warm-pins.ts'
import type { Database } from '../../tables.ts'
import { disabledByOwner } from '../models/config-lifecycle.ts'
import { bumpCache } from '../platform/cache-versions.ts'

/** Sets on how many nodes an endpoint's model is pinned, and ends the pins of its previous version. */
export async function setMinWarm(
  db: Kysely<Database>,
  endpointId: string,
  nodes: number,
): Promise<{ id: string } | undefined> {
  return db
    .updateTable('endpoint')
    .set({ min_warm: nodes })
    .where('id', '=', endpointId)
    .where('deleted_at', 'is', null)
    .returning('id')
    .executeTakeFirst()
}

/** Lists the models to pin: for active endpoints, each with the largest number that one of them asks for. */
export function listWarmWants(db: Kysely<Database>): Promise<WarmWant[]> {
  return db
    .selectFrom('endpoint')
    .innerJoin('model_version', 'model_version.id', 'endpoint.version_id')
    .select(['endpoint.model_key', 'model_version.runtime_profile', 'model_version.memory_mb'])
    .select((eb) => eb.fn.max<number>('endpoint.min_warm').as('nodes'))
    .select(
      sql<
        string | null
      >`case when bool_or(endpoint.visibility = 'public') or count(distinct endpoint.account_id) > 1
        then null else (array_agg(endpoint.account_id))[1] end`.as('account_id'),
    )
    .where('endpoint.min_warm', '>', 0)
    .where('endpoint.deleted_at', 'is', null)
    .where('endpoint.status', 'in', ['active', 'deprecated'])
    .where('model_version.lifecycle_status', '!=', 'disabled')
    .where((eb) => eb.not(disabledByOwner()))
    .groupBy(['endpoint.model_key', 'model_version.runtime_profile', 'model_version.memory_mb'])
    .orderBy('endpoint.model_key')
    .execute()
}

/** Lists which nodes pin which models. */
export function listWarmPins(db: Kysely<Database>): Promise<WarmPin[]> {
  return db
    .selectFrom('warm_pin')
    .select(['model_key', 'node_id', 'missing_since'])
    .orderBy('model_key')
    .orderBy('node_id')
    .execute()
}

/**
 * Locks the planning of pins, so that one gateway plans at a time. With `wait` false, returns false when
 * another gateway holds the lock.
 */
export async function lockWarmPins(
  trx: Transaction<Database>,
  { wait }: { wait: boolean },
): Promise<boolean> {
  if (wait) {
    await sql`select pg_advisory_xact_lock(hashtextextended('warm-pins', 0))`.execute(trx)
    return true
  }
  const { rows } = await sql<{ got: boolean }>`
    select pg_try_advisory_xact_lock(hashtextextended('warm-pins', 0)) as got`.execute(trx)
  return rows[0]?.got ?? false
}

/** Stores a plan, and makes the gateways send their nodes the changes. */
export async function applyPinPlan(
  trx: Transaction<Database>,
  { add, drop, missing, back }: PinPlan,
  now: Date,
): Promise<void> {
  if (missing.length > 0) {
    await trx.updateTable('warm_pin').set({ missing_since: now }).where(isOneOf(missing)).execute()
  }
  if (back.length > 0) {
    await trx.updateTable('warm_pin').set({ missing_since: null }).where(isOneOf(back)).execute()
  }
  if (drop.length > 0) await trx.deleteFrom('warm_pin').where(isOneOf(drop)).execute()
  if (add.length > 0)
    await trx
      .insertInto('warm_pin')
      .values([...add])
      .execute()
  if (add.length > 0 || drop.length > 0) await bumpCache(trx, 'node')
}

function isOneOf(places: readonly PinPlace[]): RawBuilder<boolean> {
  const keys = places.map(({ model_key }) => model_key)
  const nodes = places.map(({ node_id }) => node_id)
  return sql<boolean>`(model_key, node_id) in (select * from unnest(${keys}::text[], ${nodes}::uuid[]))`
}
