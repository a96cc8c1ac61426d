import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow } from '../../tables/models.ts'
import { bumpCache } from '../platform/cache-versions.ts'

/** The lifetime of signed URLs for hub files. */
const GRANT_TTL_HOURS = 24

/** True if `node`'s account may use the version `v`: its own, or one that is offered to all accounts. */
const USABLE = sql<boolean>`(node.account_id = v.account_id or (v.lifecycle_status <> 'disabled' and exists (
  select 1 from endpoint e where e.version_id = v.id and e.visibility = 'public'
    and e.review_status = 'approved' and e.deleted_at is null)))`

export interface NodeModelRef {
  nodeId: string
  modelKey: string
}

/**
 * Records that the platform orders, or joins, the load of a model on a node. Only then may the node download its files
 * and count as warm for it. Gateways and the gate are notified of a new order. Safe to repeat.
 */
export async function orderModel(
  trx: Transaction<Database>,
  { nodeId, modelKey }: NodeModelRef,
): Promise<void> {
  const { rows } = await sql<{ is_new: boolean }>`
    insert into node_model_order as o (node_id, model_key) values (${nodeId}::uuid, ${modelKey})
    on conflict (node_id, model_key) do update set ordered_at = now() where o.ordered_at < now() - interval '1 hour'
    returning xmax = 0 as is_new`.execute(trx)
  if (rows[0]?.is_new) await bumpCache(trx, 'node')
}

/**
 * Of these models, orders the ones that the node's own account may use. The node may load them by itself, and the
 * platform then uses the loaded model. Safe to repeat.
 */
export async function joinOwnLoads(
  db: Kysely<Database>,
  nodeId: string,
  modelKeys: readonly string[],
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const { rows } = await sql`
      insert into node_model_order (node_id, model_key)
      select node.id, v.model_key from node join model_version v on v.model_key = any(${modelKeys}::text[])
      where node.id = ${nodeId}::uuid and node.status <> 'removed' and ${USABLE}
      on conflict do nothing returning 1`.execute(trx)
    if (rows.length > 0) await bumpCache(trx, 'node')
  })
}

/** Lets a node download these models for a job or comparison that it runs. Safe to repeat. */
export async function grantModels(
  db: Kysely<Database>,
  nodeId: string,
  modelKeys: readonly string[],
): Promise<void> {
  if (modelKeys.length === 0) return
  const expires_at = sql<Date>`now() + make_interval(hours => ${GRANT_TTL_HOURS})`
  await db
    .insertInto('node_model_grant')
    .values([...new Set(modelKeys)].map((model_key) => ({ node_id: nodeId, model_key, expires_at })))
    .onConflict((oc) => oc.columns(['node_id', 'model_key']).doUpdateSet({ expires_at }))
    .execute()
}

/** The reason why a node may have the files of a model; undefined when it may not. */
export type ModelClaim = 'ordered' | 'granted' | 'usable'

/**
 * Returns why a node may have the files of a model: the platform ordered its load, a job or comparison on the node
 * needs it, or the node's own account may use it. An order for another account is void once the node is dedicated.
 */
export async function modelClaimOf(
  db: Kysely<Database>,
  nodeId: string,
  { model_key }: Pick<ModelVersionRow, 'model_key'>,
): Promise<ModelClaim | undefined> {
  const { rows } = await sql<{ ordered: boolean; granted: boolean; usable: boolean; shared: boolean }>`
    select node.sharing = 'shared' as shared,
      exists (select 1 from node_model_order o where o.node_id = node.id and o.model_key = ${model_key}) as ordered,
      exists (
        select 1 from node_model_grant g
        where g.node_id = node.id and g.model_key = ${model_key} and g.expires_at > now()
      ) as granted,
      ${USABLE} as usable
    from node, model_version v
    where node.id = ${nodeId}::uuid and node.status <> 'removed' and v.model_key = ${model_key}`.execute(db)
  const [found] = rows
  if (!found) return undefined
  if (found.ordered && (found.shared || found.usable)) return 'ordered'
  if (found.granted) return 'granted'
  return found.usable ? 'usable' : undefined
}

/** Returns whether the platform ordered the load of a model on this node. */
export async function isOrdered(db: Kysely<Database>, { nodeId, modelKey }: NodeModelRef): Promise<boolean> {
  const row = await db
    .selectFrom('node_model_order')
    .select('node_id')
    .where('node_id', '=', nodeId)
    .where('model_key', '=', modelKey)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Deletes a batch of orders that are older than a day and whose model the node neither has nor pins, and returns their
 * number. Such a node's reports about the model are then ignored until the next order.
 */
export async function dropOldOrders(db: Kysely<Database>, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from node_model_order where ctid = any(array(
      select o.ctid from node_model_order o
      left join node_state s on s.node_id = o.node_id and s.updated_at > now() - interval '1 hour'
      where o.ordered_at < now() - interval '24 hours'
        and not coalesce(s.snapshot -> 'models' @> jsonb_build_array(jsonb_build_object('model_key', o.model_key)), false)
        and not exists (select 1 from warm_pin p where p.node_id = o.node_id and p.model_key = o.model_key)
      limit ${limit}
      for update of o skip locked
    ))`.execute(db)
  return Number(numAffectedRows ?? 0)
}
