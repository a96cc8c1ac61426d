import { type Kysely, sql, type Transaction } from 'kysely'
import { toolKey } from '../../../domain/tools/catalog.ts'
import type { CatalogTool } from '../../../schemas/catalog-tool.ts'
import type { Database } from '../../tables.ts'
import type { AccountRow } from '../../tables/accounts.ts'
import type { ToolRow } from '../../tables/tools.ts'
import { type Listing, listingColumns } from '../models/listing.ts'

/** The account of the platform itself, which owns the endpoints of its tools. It has no keys. */
const PLATFORM: Pick<AccountRow, 'id' | 'name'> = {
  id: '00000000-0000-7000-8000-00000000f001',
  name: 'platform',
}

/** Locks all tools against changes until the transaction ends, and returns the account that owns their endpoints. */
export async function lockTools(trx: Transaction<Database>): Promise<string> {
  await sql`select pg_advisory_xact_lock(hashtextextended('tools', 0))`.execute(trx)
  await trx
    .insertInto('account')
    .values(PLATFORM)
    .onConflict((oc) => oc.doNothing())
    .execute()
  return PLATFORM.id
}

export function findTool(db: Kysely<Database>, slug: string): Promise<ToolRow | undefined> {
  return db.selectFrom('tool').selectAll().where('slug', '=', slug).executeTakeFirst()
}

/** Lists the available tools, sorted by slug; `origin` filters them. */
export function listTools(db: Kysely<Database>, origin?: ToolRow['origin']): Promise<ToolRow[]> {
  return db
    .selectFrom('tool')
    .selectAll()
    .where('removed_at', 'is', null)
    .$call((qb) => (origin === undefined ? qb : qb.where('origin', '=', origin)))
    .orderBy('slug')
    .execute()
}

/** Withdraws a tool; `undefined` when there is no such tool. */
export function withdrawTool(
  trx: Transaction<Database>,
  slug: string,
  now: Date,
): Promise<ToolRow | undefined> {
  return trx
    .updateTable('tool')
    .set({ removed_at: now, updated_at: now })
    .where('slug', '=', slug)
    .where('removed_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

/** Creates a tool, or replaces its definition; a removed one is offered again. */
export async function saveTool(
  trx: Transaction<Database>,
  {
    origin,
    definition,
    endpointId,
    now,
  }: {
    origin: ToolRow['origin']
    definition: CatalogTool
    endpointId: string
    now: Date
  },
): Promise<void> {
  const set = { origin, definition: JSON.stringify(definition), removed_at: null, updated_at: now }
  await trx
    .insertInto('tool')
    .values({ slug: definition.slug, endpoint_id: endpointId, ...set })
    .onConflict((oc) => oc.column('slug').doUpdateSet(set))
    .execute()
}

/** Changes the input and output description of the version behind a tool. */
export async function updateToolVersion(
  trx: Transaction<Database>,
  slug: string,
  listing: Listing,
): Promise<void> {
  await trx
    .updateTable('model_version')
    .set(listingColumns(listing))
    .where('model_key', '=', toolKey(slug))
    .execute()
}
