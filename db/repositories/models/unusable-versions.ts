import { sql, type Transaction } from 'kysely'
import { storable } from '../../../domain/storable-text.ts'
import type { Database } from '../../tables.ts'
import { noteChangeBehind } from '../endpoints/changes.ts'
import { LOAD_REPORT_TTL_S } from '../nodes/loads.ts'

export interface UnusableVersion {
  modelKey: string
  /** The node that reported it. */
  nodeId: string
  reason: string
}

const MAX_REASON = 1_000
const IS_BELIEVED = sql`(node.account_id = model_version.account_id or node.sharing = 'shared')`

/**
 * Marks a version whose weights cannot be used, notifies every gateway, and returns whether it is marked now. Only
 * reports from nodes of the version's own account or of the operator count; otherwise any node could close a model to
 * all accounts. Even these reports are ignored if such a node has the model loaded or is known to have loaded it,
 * because then the reporting node is at fault. Safe to repeat, because the first reason stays.
 */
export async function markUnusable(
  trx: Transaction<Database>,
  { modelKey, nodeId, reason }: UnusableVersion,
): Promise<boolean> {
  const message = storable(reason.slice(0, MAX_REASON))
  const { numUpdatedRows } = await trx
    .updateTable('model_version')
    .set({
      unusable: message,
      lifecycle_note: sql`case lifecycle_status when 'disabled' then lifecycle_note else ${message} end`,
    })
    .where('model_key', '=', modelKey)
    .where('unusable', 'is', null)
    .where((eb) => eb.or([eb('job_id', 'is', null), eb('lifecycle_status', '=', 'candidate')]))
    .where(sql<boolean>`exists (select from node where id = ${nodeId}::uuid and ${IS_BELIEVED})`)
    // A load that had to install its environment has no row in `load_time`.
    .where(
      sql<boolean>`not exists (
        select from node_state state join node on node.id = state.node_id, jsonb_array_elements(state.snapshot -> 'models') model
        where state.updated_at > now() - make_interval(secs => ${LOAD_REPORT_TTL_S}) and ${IS_BELIEVED}
          and model ->> 'model_key' = ${modelKey} and model ->> 'state' in ('warm', 'running', 'idle'))`,
    )
    .where((eb) =>
      eb.not(
        eb.exists(eb.selectFrom('load_time').select('model_key').where('load_time.model_key', '=', modelKey)),
      ),
    )
    .executeTakeFirst()
  if (numUpdatedRows > 0n) {
    await noteChangeBehind(trx, { modelKey })
    return true
  }
  const marked = await trx
    .selectFrom('model_version')
    .select('id')
    .where('model_key', '=', modelKey)
    .where('unusable', 'is not', null)
    .executeTakeFirst()
  return marked !== undefined
}

/** Returns why a version cannot be used, if it is marked; locks the row against being marked until the transaction ends. */
export async function lockUnusable(
  trx: Transaction<Database>,
  versionId: string,
): Promise<string | undefined> {
  const row = await trx
    .selectFrom('model_version')
    .select('unusable')
    .where('id', '=', versionId)
    .forUpdate()
    .executeTakeFirst()
  return row?.unusable ?? undefined
}
