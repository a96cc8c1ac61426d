import { type Kysely, sql, type Transaction } from 'kysely'
import { bareArray } from '../../array-params.ts'
import type { Database } from '../../tables.ts'
import { CACHE_CHANNEL } from '../platform/cache-versions.ts'

/** A gateway that has not read the changes for this long re-reads everything. */
const KEPT = '1 hour'

/**
 * Must be called in the transaction that changes endpoints; gateways drop their cached data once it commits. The row of
 * the cache is locked until then, so versions become visible in order, each with its endpoints.
 */
export async function noteEndpointChange(trx: Transaction<Database>, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await sql`
    with bumped as (
      update cache_version set version = version + 1 where name = 'endpoint' returning version
    )
    insert into endpoint_change (version, endpoint_id)
    select bumped.version, changed.id from bumped, unnest(${bareArray(ids)}::uuid[]) as changed (id)
  `.execute(trx)
  await sql`delete from endpoint_change where changed_at < now() - ${KEPT}::interval`.execute(trx)
  await sql`select pg_notify(${CACHE_CHANNEL}, 'endpoint')`.execute(trx)
}

export interface EndpointChanges {
  version: number
  /** The changed endpoints; undefined when any may have changed. */
  ids: string[] | undefined
}

/** Returns which endpoints have changed since a version of the cache. */
export async function readEndpointChanges(db: Kysely<Database>, since: number): Promise<EndpointChanges> {
  const { rows } = await sql<{ version: number; steps: number; ids: string[] }>`
    select cache.version, count(distinct change.version)::int as steps,
      coalesce(array_agg(distinct change.endpoint_id) filter (where change.endpoint_id is not null), '{}') as ids
    from cache_version cache
    left join endpoint_change change on change.version > ${since} and change.version <= cache.version
    where cache.name = 'endpoint'
    group by cache.version
  `.execute(db)
  const [row] = rows
  if (!row) return { version: since, ids: undefined }
  const { version, steps, ids } = row
  return { version, ids: steps === version - since ? ids : undefined }
}

/** Records a change to a version or config behind endpoints. */
export async function noteChangeBehind(
  trx: Transaction<Database>,
  behind: { versionId: string } | { modelKey: string } | { accountId: string; configId: string },
): Promise<void> {
  const served = trx
    .selectFrom('endpoint')
    .innerJoin('model_version', 'model_version.id', 'endpoint.version_id')
    .select('endpoint.id')
    .where('endpoint.deleted_at', 'is', null)
  const rows =
    'versionId' in behind
      ? served.where('model_version.id', '=', behind.versionId)
      : 'modelKey' in behind
        ? served.where('model_version.model_key', '=', behind.modelKey)
        : served
            .where('endpoint.account_id', '=', behind.accountId)
            .where('model_version.model_config_id', '=', behind.configId)
  // A transaction that publishes an endpoint holds this row until it commits, so the query below finds the endpoint.
  await trx.selectFrom('cache_version').select('version').where('name', '=', 'endpoint').forUpdate().execute()
  const found = await rows.execute()
  await noteEndpointChange(
    trx,
    found.map(({ id }) => id),
  )
}
