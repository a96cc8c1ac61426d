import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { EndpointCopies } from '../../../domain/placement/copy-wants.ts'
import type { PinRef, PinPlan, WarmPin } from '../../../domain/placement/warm-pins.ts'
import type { Database } from '../../tables.ts'
import { BASE_KEY } from '../endpoints/adapters.ts'
import { ENGINE } from '../endpoints/serving.ts'
import { disabledByOwner } from '../models/config-lifecycle.ts'
import { bumpCache } from '../platform/cache-versions.ts'

/** A plan takes milliseconds; one that takes this long is stuck. */
const LOCK_TIMEOUT_MS = '10000'

/** Sets the minimum number of copies of an endpoint's model. */
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

/**
 * Lists the active endpoints that want copies of their model, and those with scaling settings whose model is still
 * pinned, because copies above a lowered `max` are unloaded.
 */
export function listEndpointCopies(db: Kysely<Database>): Promise<EndpointCopies[]> {
  return db
    .selectFrom('endpoint')
    .innerJoin('model_version', 'model_version.id', 'endpoint.version_id')
    .leftJoin('endpoint_scaling as scaling', 'scaling.endpoint_id', 'endpoint.id')
    .select(['endpoint.id', 'endpoint.model_key', 'model_version.runtime_profile'])
    .select(['model_version.memory_mb', 'model_version.tensor_parallel'])
    .select([BASE_KEY.as('base_key'), ENGINE.as('engine')])
    .select([
      'endpoint.account_id',
      'endpoint.min_warm',
      'scaling.min_copies',
      'scaling.max_copies',
      'scaling.target_in_flight',
    ])
    .select(['scaling.target_wait_ms', 'scaling.idle_timeout_s', 'scaling.schedule'])
    .select(sql<boolean>`endpoint.visibility = 'public'`.as('is_public'))
    .where((eb) => {
      const isPinned = eb.exists(
        eb.selectFrom('warm_pin').select('node_id').whereRef('warm_pin.model_key', '=', 'endpoint.model_key'),
      )
      return eb.or([
        eb('endpoint.min_warm', '>', 0),
        eb('scaling.reserved', '>', 0),
        eb.and([eb('scaling.endpoint_id', 'is not', null), isPinned]),
      ])
    })
    .where('endpoint.deleted_at', 'is', null)
    .where('endpoint.status', 'in', ['active', 'deprecated'])
    .where('model_version.lifecycle_status', '!=', 'disabled')
    .where((eb) => eb.not(disabledByOwner()))
    .orderBy('endpoint.model_key')
    .execute()
}

/** Lists which nodes pin which models. */
export function listWarmPins(db: Kysely<Database>): Promise<WarmPin[]> {
  return db
    .selectFrom('warm_pin')
    .select(['model_key', 'node_id', 'missing_since'])
    .where('retiring_since', 'is', null)
    .orderBy('model_key')
    .orderBy('node_id')
    .execute()
}

/** Lists the copies that nodes must unload. */
export function listRetiring(db: Kysely<Database>): Promise<PinRef[]> {
  return db
    .selectFrom('warm_pin')
    .select(['model_key', 'node_id'])
    .where('retiring_since', 'is not', null)
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
    await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT_MS}, true)`.execute(trx)
    await sql`select pg_advisory_xact_lock(hashtextextended('warm-pins', 0))`.execute(trx)
    return true
  }
  const { rows } = await sql<{ got: boolean }>`
    select pg_try_advisory_xact_lock(hashtextextended('warm-pins', 0)) as got`.execute(trx)
  return rows[0]?.got ?? false
}

/** Stores a plan, and has the gateways send the changes to their nodes. */
export async function applyPinPlan(
  trx: Transaction<Database>,
  { add, drop, missing, back, retire, gone }: PinPlan,
  now: Date,
): Promise<void> {
  if (missing.length > 0) {
    await trx.updateTable('warm_pin').set({ missing_since: now }).where(isOneOf(missing)).execute()
  }
  if (back.length > 0) {
    await trx.updateTable('warm_pin').set({ missing_since: null }).where(isOneOf(back)).execute()
  }
  if (retire.length > 0) {
    await trx.updateTable('warm_pin').set({ retiring_since: now }).where(isOneOf(retire)).execute()
  }
  const ended = [...drop, ...gone]
  if (ended.length > 0) await trx.deleteFrom('warm_pin').where(isOneOf(ended)).execute()
  if (add.length > 0)
    await trx
      .insertInto('warm_pin')
      .values([...add])
      // The copy was marked for unloading and is needed again.
      .onConflict((oc) =>
        oc.columns(['model_key', 'node_id']).doUpdateSet({ retiring_since: null, missing_since: null }),
      )
      .execute()
  if (add.length + ended.length + retire.length > 0) await bumpCache(trx, 'node')
}

function isOneOf(places: readonly PinRef[]): RawBuilder<boolean> {
  const keys = places.map(({ model_key }) => model_key)
  const nodes = places.map(({ node_id }) => node_id)
  return sql<boolean>`(model_key, node_id) in (select * from unnest(${keys}::text[], ${nodes}::uuid[]))`
}
