import { type Kysely, sql } from 'kysely'
import { firstIdAt } from '../../../domain/uuid.ts'
import { ofAccount } from '../../keyset.ts'
import type { Database } from '../../tables.ts'
import type { EventTable } from '../../tables/accounts.ts'

/** An event as the feed shows it. */
export type FeedEventRow = Pick<EventTable, 'id' | 'type' | 'payload'> & { created_at: Date }

interface FeedPage {
  type: string | undefined
  since: Date | undefined
  until: Date | undefined
  before: string | undefined
  limit: number
}

/** Lists an account's events, newest first, without those of tasks that succeeded. */
export const listEvents = (...of: Parameters<typeof eventsQuery>): Promise<FeedEventRow[]> =>
  eventsQuery(...of).execute()

/** Returns the query for a page. Ids sort by creation time, so time bounds become id bounds. */
export function eventsQuery(
  db: Kysely<Database>,
  accountId: string,
  { type, since, until, before, limit }: FeedPage,
) {
  let query = db
    .selectFrom('event')
    .select(['id', 'type', 'payload', 'created_at'])
    .where(ofAccount('account_id', accountId))
    // Use a literal, as in the index.
    .where(sql<boolean>`type <> 'inference.task.succeeded'`)
    .orderBy('account_id')
    .orderBy('id', 'desc')
    .limit(limit)
  if (type !== undefined) query = query.where('type', '=', type)
  if (since !== undefined) query = query.where('id', '>=', firstIdAt(since))
  if (until !== undefined) query = query.where('id', '<', firstIdAt(until))
  if (before !== undefined) query = query.where('id', '<', before)
  return query
}

/**
 * The channel that receives an account's id once per statement that writes events for its feed, or events of its nodes.
 */
export const EVENT_CHANNEL = 'hearth_event'

interface FeedRange {
  /** The smallest id. */
  from: string
  /** Ids that are left out. */
  except: readonly string[]
  limit: number
}

/** Lists an account's events, starting at an id, oldest first, without those of tasks that succeeded. */
export function listEventsSince(
  db: Kysely<Database>,
  accountId: string,
  { from, except, limit }: FeedRange,
): Promise<FeedEventRow[]> {
  return db
    .selectFrom('event')
    .select(['id', 'type', 'payload', 'created_at'])
    .where(ofAccount('account_id', accountId))
    .where(sql<boolean>`type <> 'inference.task.succeeded'`)
    .where('id', '>=', from)
    .where(sql<boolean>`id <> all(${except}::uuid[])`)
    .orderBy('account_id')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** An event of any account, or of a node; a node's event has a null payload. */
export interface PlatformEventRow {
  id: string
  account_id: string
  type: string
  resource_id: string
  payload: Buffer | null
  created_at: Date
}

/**
 * Lists events of all accounts and their nodes, or of only one account, starting at an id, oldest first. Tasks that
 * succeeded are left out.
 */
export async function listPlatformEventsSince(
  db: Kysely<Database>,
  accountId: string | undefined,
  { from, except, limit }: FeedRange,
): Promise<PlatformEventRow[]> {
  const conditions = [
    sql`id >= ${from}::uuid and id <> all(${except}::uuid[])`,
    ...(accountId === undefined ? [] : [sql`account_id = ${accountId}::uuid`]),
  ]
  const wanted = sql.join(conditions, sql` and `)
  const { rows } = await sql<PlatformEventRow>`
    (select id, account_id, type, resource_id, payload, created_at from event
     where type <> 'inference.task.succeeded' and ${wanted} order by id limit ${limit})
    union all
    (select id, account_id, type, node_id, null, created_at from node_event
     where ${wanted} order by id limit ${limit})
    order by id limit ${limit}`.execute(db)
  return rows
}
