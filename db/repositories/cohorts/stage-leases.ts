import { sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import { EDGE_CHANNEL } from './edges.ts'

const revoked = (stageIds: readonly string[]) => sql`
  update lease set state = 'revoked', closed_at = now()
  where kind = 'stage' and state = 'active' and subject_id = any(${stageIds}::uuid[])
  returning subject_id, node_id`

/** Takes stages from their nodes, which learn it from the answer to their next call. */
export async function revokeStages(trx: Transaction<Database>, stageIds: readonly string[]): Promise<void> {
  await revoked(stageIds).execute(trx)
}

/**
 * Takes stages from their nodes, which every gateway tells to those that are linked to it: the notification says the stage
 * and the node, in two words. A workflow that is about to end must not use this for its stages, because the end of
 * their calls would come between its last commands and their record.
 */
export async function recallStages(trx: Transaction<Database>, stageIds: readonly string[]): Promise<void> {
  await sql`
    with recalled as (${revoked(stageIds)})
    select pg_notify(${EDGE_CHANNEL}, subject_id::text || ' ' || node_id::text) from recalled`.execute(trx)
}
