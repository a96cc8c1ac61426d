import { type Kysely, sql, type Transaction } from 'kysely'
import { EDGE_SECONDS } from '../../../domain/cohorts/edges/deadlines.ts'
import type { PairRates } from '../../../domain/cohorts/transfers.ts'
import type { Database } from '../../tables.ts'

export interface NodePair {
  from: string
  to: string
}

/** The weight of the newest transfer in the mean. */
const NEWEST = 0.2

/** Returns whether a pair of nodes may try to connect; false for a while after none of the addresses responded. */
export async function isReachable(db: Kysely<Database>, { from, to }: NodePair): Promise<boolean> {
  const pair = await db
    .selectFrom('edge_rate')
    .select('from_node_id')
    .where('from_node_id', '=', from)
    .where('to_node_id', '=', to)
    .where('unreachable_until', '>', sql<Date>`now()`)
    .executeTakeFirst()
  return pair === undefined
}

/** Returns whether an edge's bytes were corrupted in transit twice between a pair of nodes. */
export async function hasBrokenTwice(
  db: Kysely<Database>,
  edgeId: string,
  { from, to }: NodePair,
): Promise<boolean> {
  const broken = await db
    .selectFrom('cohort_edge_attempt')
    .select('attempt')
    .where('edge_id', '=', edgeId)
    .where('failure', '=', 'digest_mismatch')
    .where('producer_node_id', '=', from)
    .where('consumer_node_id', '=', to)
    .limit(2)
    .execute()
  return broken.length === 2
}

/** Sends the payloads of a pair through the object store for a while. */
export async function markUnreachable(trx: Transaction<Database>, { from, to }: NodePair): Promise<void> {
  const unreachable_until = sql<Date>`now() + make_interval(secs => ${EDGE_SECONDS.unreachable})`
  await trx
    .insertInto('edge_rate')
    .values({ from_node_id: from, to_node_id: to, unreachable_until })
    .onConflict((oc) => oc.columns(['from_node_id', 'to_node_id']).doUpdateSet({ unreachable_until }))
    .execute()
}

/** Adds a direct transfer to the mean rate of its pair. */
export async function recordRate(
  trx: Transaction<Database>,
  { from, to }: NodePair,
  mbPerSecond: number,
): Promise<void> {
  await sql`
    insert into edge_rate (from_node_id, to_node_id, ewma_mb_s, samples)
    values (${from}::uuid, ${to}::uuid, ${mbPerSecond}, 1)
    on conflict (from_node_id, to_node_id) do update set
      ewma_mb_s = coalesce(edge_rate.ewma_mb_s + ${NEWEST} * (excluded.ewma_mb_s - edge_rate.ewma_mb_s), excluded.ewma_mb_s),
      samples = edge_rate.samples + 1, unreachable_until = null`.execute(trx)
}

/** Returns the measured mean rates between these nodes. */
export async function readRates(db: Kysely<Database>, nodeIds: readonly string[]): Promise<PairRates> {
  const among = sql<string>`any(${nodeIds}::uuid[])`
  const rows = await db
    .selectFrom('edge_rate')
    .select(['from_node_id', 'to_node_id', 'ewma_mb_s'])
    .where('from_node_id', '=', among)
    .where('to_node_id', '=', among)
    .where('ewma_mb_s', '>', 0)
    .execute()
  const rates = new Map<string, Map<string, number>>()
  for (const { from_node_id: from, to_node_id: to, ewma_mb_s: rate } of rows) {
    if (rate === null) continue
    const known = rates.get(from)
    if (known) known.set(to, rate)
    else rates.set(from, new Map([[to, rate]]))
  }
  return rates
}
