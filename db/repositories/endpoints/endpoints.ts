import { type Kysely, sql, type Transaction, type Updateable } from 'kysely'
import { isUuid } from '../../../domain/uuid.ts'
import type { Database } from '../../tables.ts'
import type { EndpointRow, EndpointTable, NewEndpoint } from '../../tables/models.ts'
import { noteChangeBehind, noteEndpointChange } from './changes.ts'

/** Excludes description, schemas and examples, which may be a megabyte in size: most statements need only the state. */
const FACTS = [
  'id',
  'account_id',
  'name',
  'visibility',
  'status',
  'review_status',
  'review_note',
  'is_base_model',
  'task_type',
  'base_model',
  'version_id',
  'model_key',
  'runtime_profile',
  'min_warm',
  'replaced_by',
  'deprecated_at',
] as const satisfies (keyof EndpointRow)[]

/** An endpoint without its listing. */
export type EndpointFacts = Pick<EndpointRow, (typeof FACTS)[number]>

const byIdOrName = (db: Kysely<Database>, idOrName: string) =>
  db
    .selectFrom('endpoint')
    .where(isUuid(idOrName) ? 'id' : 'name', '=', idOrName.toLowerCase())
    .where('deleted_at', 'is', null)

/** Finds an endpoint that is not deleted, by id or by name. The caller must check who may see it. */
export function findEndpoint(db: Kysely<Database>, idOrName: string): Promise<EndpointRow | undefined> {
  return byIdOrName(db, idOrName).selectAll().executeTakeFirst()
}

/** Finds an endpoint in the same way, without its listing. */
export function findEndpointFacts(
  db: Kysely<Database>,
  idOrName: string,
): Promise<EndpointFacts | undefined> {
  return byIdOrName(db, idOrName).select(FACTS).executeTakeFirst()
}

/** Like `findEndpointFacts`, but also locks the endpoint against changes and removal until the transaction ends. */
export function shareLockEndpoint(
  trx: Transaction<Database>,
  idOrName: string,
): Promise<EndpointFacts | undefined> {
  return byIdOrName(trx, idOrName).select(FACTS).forShare().executeTakeFirst()
}

/** Removes an endpoint as the replacement of others, and notifies every gateway; the caller has locked it. */
export async function forgetReplacement(trx: Transaction<Database>, name: string): Promise<void> {
  const rows = await trx
    .updateTable('endpoint')
    .set({ replaced_by: null })
    .where('replaced_by', '=', name)
    .returning('id')
    .execute()
  await noteEndpointChange(
    trx,
    rows.map(({ id }) => id),
  )
}

/**
 * Creates an endpoint; `undefined` if its name is not available. A name stays reserved for the account that used it
 * first, which can reuse it once its endpoint is deleted.
 */
export async function insertEndpoint(
  trx: Transaction<Database>,
  endpoint: NewEndpoint,
): Promise<EndpointRow | undefined> {
  const inserted = await insertUnlessTaken(trx, endpoint)
  const former = inserted ? undefined : await releaseName(trx, endpoint)
  const row = former ? await insertUnlessTaken(trx, endpoint) : inserted
  if (!row) return undefined
  if (former) {
    // Clients know the tool by its name, so the version of the new endpoint must reflect how its schemas differ from
    // the former ones.
    await trx
      .updateTable('tool_version')
      .set({ endpoint_id: row.id })
      .where('endpoint_id', '=', former.id)
      .execute()
  }
  await noteEndpointChange(trx, [row.id])
  if (row.serving !== null) await noteChangeBehind(trx, { versionId: row.version_id })
  return row
}

const insertUnlessTaken = (trx: Transaction<Database>, endpoint: NewEndpoint) =>
  trx
    .insertInto('endpoint')
    .values(endpoint)
    .onConflict((oc) => oc.column('name').doNothing())
    .returningAll()
    .executeTakeFirst()

/**
 * Renames the account's deleted endpoint of this name. No endpoint can be registered under the new name, because `~` is
 * not allowed in names; past tasks and usage show it.
 */
const releaseName = (trx: Transaction<Database>, { name, account_id }: NewEndpoint) =>
  trx
    .updateTable('endpoint')
    .set({ name: sql`name || '~' || id` })
    .where('name', '=', name)
    .where('account_id', '=', account_id)
    .where('deleted_at', 'is not', null)
    .returning('id')
    .executeTakeFirst()

/** Locks the row until the transaction ends, so that a change is based on its current state. */
export function lockEndpoint(trx: Transaction<Database>, id: string): Promise<EndpointFacts | undefined> {
  return byIdOrName(trx, id).select(FACTS).forNoKeyUpdate().executeTakeFirst()
}

/** Like `lockEndpoint`, but also reads the listing. */
export function lockEndpointInFull(trx: Transaction<Database>, id: string): Promise<EndpointRow | undefined> {
  return byIdOrName(trx, id).selectAll().forNoKeyUpdate().executeTakeFirst()
}

export type EndpointChange = Omit<
  Updateable<EndpointTable>,
  'id' | 'account_id' | 'version_id' | 'model_key' | 'updated_at'
>

/** Changes an endpoint and notifies every gateway; `undefined` when it is gone. */
export async function updateEndpoint(
  trx: Transaction<Database>,
  id: string,
  change: EndpointChange,
  now: Date,
): Promise<EndpointRow | undefined> {
  const row = await trx
    .updateTable('endpoint')
    .set({ ...change, updated_at: now })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
  if (!row) return undefined
  await noteEndpointChange(trx, [row.id])
  const changesServing =
    change.serving !== undefined || (change.deleted_at !== undefined && row.serving !== null)
  if (changesServing) await noteChangeBehind(trx, { versionId: row.version_id })
  return row
}

/** Larger schemas of deleted endpoints are discarded; in bytes, as the database stores them. */
const MAX_FORMER_SCHEMA_BYTES = 8 * 1024

/**
 * Marks a locked endpoint as deleted and clears its text fields, which may be a megabyte in size. Tasks and usage need
 * the rest of the row. Its manifest version is retained for the account's next endpoint with this name, which gets a
 * new major version if a schema was discarded.
 */
export async function markEndpointDeleted(
  trx: Transaction<Database>,
  id: string,
  { at, name }: { at: Date; name?: string },
): Promise<EndpointRow | undefined> {
  const empty = { description: '', tags: [], examples: '[]' }
  const schemas = { input_schema: '{}', output_schema: '{}' }
  const examples = { example_input: '{}', example_output: '{}' }
  const deletion = { deleted_at: at, status: 'inactive', ...(name !== undefined && { name }) } as const
  const row = await updateEndpoint(trx, id, { ...deletion, ...empty, ...schemas, ...examples }, at)
  if (!row) return undefined
  await trx
    .updateTable('tool_version')
    .set(schemas)
    .where('endpoint_id', '=', id)
    .where(
      sql<boolean>`pg_column_size(input_schema) + pg_column_size(output_schema) > ${MAX_FORMER_SCHEMA_BYTES}`,
    )
    .execute()
  return row
}

interface Review {
  verdict: 'approved' | 'rejected'
  note: string | null
  /** The time of the last change that the reviewer has seen. */
  seen: Date | undefined
  now: Date
}

/** Ends a review; `undefined` when the endpoint is not in review, or has changed since the reviewer read it. */
export async function reviewEndpoint(
  trx: Transaction<Database>,
  id: string,
  { verdict, note, seen, now }: Review,
): Promise<EndpointRow | undefined> {
  const row = await trx
    .updateTable('endpoint')
    .set({ review_status: verdict, review_note: note, updated_at: now })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .where('visibility', '=', 'public')
    .where('review_status', '<>', verdict)
    .$if(seen !== undefined, (qb) => qb.where(sql`date_trunc('milliseconds', updated_at)`, '=', seen ?? now))
    .returningAll()
    .executeTakeFirst()
  if (row) await noteEndpointChange(trx, [row.id])
  return row
}
