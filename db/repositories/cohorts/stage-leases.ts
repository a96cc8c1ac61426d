import { sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import { EDGE_CHANNEL } from './edges.ts'

/** The first word of a notification that takes a stage from its node. */
export const STAGE = 'stage'

const revoked = (stageIds: readonly string[]) => sql`
  update lease set state = 'revoked', closed_at = now()
  where kind = 'stage' and state = 'active' and subject_id = any(${stageIds}::uuid[])
  returning subject_id, attempt, node_id`

/** Takes stages from their nodes, which find out from the response to their next call. */
export async function revokeStages(trx: Transaction<Database>, stageIds: readonly string[]): Promise<void> {
  await revoked(stageIds).execute(trx)
}

/**
 * Takes stages from their nodes. Each gateway notifies the nodes that are linked to it: the notification has four
 * words, `stage`, the stage's id, the lease's attempt and the node. A workflow that is about to end must not use this
 * for its stages, because their calls would end before Temporal has recorded its last commands.
 */
export async function recallStages(trx: Transaction<Database>, stageIds: readonly string[]): Promise<void> {
  await sql`
    with recalled as (${revoked(stageIds)})
    select pg_notify(${EDGE_CHANNEL}, concat_ws(' ', ${STAGE}::text, subject_id, attempt, node_id)) from recalled`.execute(
    trx,
  )
}
