import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** A run's version is assigned to an endpoint or a model within this time; until then its files stay. */
const ASSIGNMENT_TIMEOUT_HOURS = 1

/**
 * Returns which of these models are no longer served by any endpoint: unknown ones, and versions without an endpoint
 * that are disabled, had an endpoint, or belong to no model. A candidate under test stays, because the test needs the
 * files.
 */
export async function listDeletedModels(
  db: Kysely<Database>,
  modelKeys: readonly string[],
): Promise<string[]> {
  const { rows } = await sql<{ model_key: string }>`
    select given.model_key from unnest(${[...modelKeys]}::text[]) as given(model_key)
    left join model_version v on v.model_key = given.model_key
    where v.id is null or (
      not (v.lifecycle_status = 'candidate' and v.lifecycle_note is null and v.tests > 0)
      and not exists (
        select 1 from endpoint e where v.id in (e.version_id, e.base_version_id) and e.deleted_at is null
      )
      and (
        v.lifecycle_status = 'disabled'
        or exists (select 1 from endpoint e where e.version_id = v.id)
        or (v.model_id is null and v.created_at < now() - make_interval(hours => ${ASSIGNMENT_TIMEOUT_HOURS}))
      )
    )`.execute(db)
  return rows.map(({ model_key }) => model_key)
}
