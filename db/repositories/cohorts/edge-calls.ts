import type { Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { CohortEdgeCallTable } from '../../tables/cohort-edges.ts'

/** Identifies a call that a node makes only once per attempt. */
export type CallKey = Pick<CohortEdgeCallTable, 'edge_id' | 'attempt' | 'node_id' | 'operation' | 'phase'>

/** Finds the call that has taken effect under this key. */
export function findCall(trx: Transaction<Database>, key: CallKey) {
  return trx
    .selectFrom('cohort_edge_call')
    .select(['body_digest', 'answer'])
    .where('edge_id', '=', key.edge_id)
    .where('attempt', '=', key.attempt)
    .where('node_id', '=', key.node_id)
    .where('operation', '=', key.operation)
    .where('phase', '=', key.phase)
    .executeTakeFirst()
}

/** Records a call that takes effect, with the response for repeats; null if repeats get the current state instead. */
export async function recordCall(
  trx: Transaction<Database>,
  key: CallKey,
  { digest, answer }: { digest: Buffer; answer: object | null },
): Promise<void> {
  await trx
    .insertInto('cohort_edge_call')
    .values({ ...key, body_digest: digest, answer: answer && JSON.stringify(answer) })
    .execute()
}
