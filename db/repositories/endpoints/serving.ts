import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Serving } from '../../../schemas/nodes/serving.ts'
import type { Database } from '../../tables.ts'

/** The engine that the serving of a version names, for statements that select from `model_version`; null for none. */
export const ENGINE: RawBuilder<string | null> = sql<string | null>`(
  select nullif(e.serving ->> 'engine', 'auto') from endpoint e
  where e.version_id = model_version.id and e.serving is not null and e.deleted_at is null order by e.id limit 1)`

const withServing = (db: Kysely<Database>, versionId: string) =>
  db
    .selectFrom('endpoint')
    .where('version_id', '=', versionId)
    .where('serving', 'is not', null)
    .where('deleted_at', 'is', null)

/**
 * Returns the owner of a version, and the name of another endpoint that says how to serve it. Locks the version, so that
 * two requests cannot set it at once.
 */
export async function lockServing(
  trx: Transaction<Database>,
  { id, versionId }: { id: string | undefined; versionId: string },
): Promise<{ owner: string | undefined; other: string | undefined }> {
  const version = await trx
    .selectFrom('model_version')
    .select('account_id')
    .where('id', '=', versionId)
    .forUpdate()
    .executeTakeFirst()
  const other = await withServing(trx, versionId)
    .select('name')
    .$if(id !== undefined, (query) => query.where('id', '<>', id ?? ''))
    .executeTakeFirst()
  return { owner: version?.account_id, other: other?.name }
}

/** Returns how to serve a version; undefined for the defaults. */
export async function findServing(db: Kysely<Database>, versionId: string): Promise<Serving | undefined> {
  const found = await withServing(db, versionId).select('serving').orderBy('id').executeTakeFirst()
  return found?.serving ?? undefined
}
