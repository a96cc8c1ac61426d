import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelConfigLifecycleRow } from '../../tables/hub.ts'
import { noteChangeBehind } from '../endpoints/changes.ts'

/** Returns an account's settings for catalog configs, by config id. */
export async function readConfigLifecycles(
  db: Kysely<Database>,
  accountId: string,
): Promise<Map<string, ModelConfigLifecycleRow>> {
  const rows = await db
    .selectFrom('model_config_lifecycle')
    .selectAll()
    .where('account_id', '=', accountId)
    .execute()
  return new Map(rows.map((row) => [row.model_config_id, row]))
}

/**
 * For a row of `endpoint` joined with its `model_version`: returns whether the endpoint's owner has
 * disabled the version's config.
 */
export const disabledByOwner = () => sql<boolean>`exists (
  select from model_config_lifecycle said
  where said.account_id = endpoint.account_id
    and said.model_config_id = model_version.model_config_id
    and said.lifecycle_status = 'disabled'
)`

/** Stores an account's setting for a config and notifies every gateway. */
export async function saveConfigLifecycle(
  trx: Transaction<Database>,
  row: ModelConfigLifecycleRow,
): Promise<void> {
  const { lifecycle_status, reason, updated_at } = row
  await trx
    .insertInto('model_config_lifecycle')
    .values(row)
    .onConflict((oc) =>
      oc.columns(['account_id', 'model_config_id']).doUpdateSet({ lifecycle_status, reason, updated_at }),
    )
    .execute()
  await noteChangeBehind(trx, { accountId: row.account_id, configId: row.model_config_id })
}
