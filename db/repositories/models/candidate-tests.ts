import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow } from '../../tables/models.ts'
import { enqueueWorkflow, type WorkflowStart } from '../platform/workflow-starts.ts'

/** A candidate whose test is enqueued or running and has no verdict yet. */
type CandidateInTest = Pick<ModelVersionRow, 'id' | 'account_id' | 'model_key' | 'tests'>

/** Enqueues the test of a candidate that still exists, unless one is already enqueued or running. */
export async function enqueueCandidateTest(
  trx: Transaction<Database>,
  versionId: string,
  start: WorkflowStart,
): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('model_version')
    .set({ tests: sql<number>`greatest(tests, 1)` })
    .where('id', '=', versionId)
    .executeTakeFirst()
  if (numUpdatedRows > 0n) await enqueueWorkflow(trx, start)
}

/**
 * Enqueues the next test, unless the candidate's number of tests has changed; false if another transaction has enqueued
 * it, or the test has reached a verdict in the meantime.
 */
export async function enqueueNextTest(
  trx: Transaction<Database>,
  { id, tests }: CandidateInTest,
  start: WorkflowStart,
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('model_version')
    .set({ tests: tests + 1 })
    .where('id', '=', id)
    .where('tests', '=', tests)
    .where('lifecycle_status', '=', 'candidate')
    .where('lifecycle_note', 'is', null)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  await enqueueWorkflow(trx, start)
  return true
}

/** Lists candidates whose test should be running by now, because its start is no longer enqueued. */
export async function candidatesInTest(
  db: Kysely<Database>,
  { after, limit }: { after: string | null; limit: number },
): Promise<CandidateInTest[]> {
  const { rows } = await sql<CandidateInTest>`
    select id, account_id, model_key, tests from model_version v
    where lifecycle_status = 'candidate' and lifecycle_note is null and tests > 0
      and (${after}::uuid is null or id > ${after}::uuid)
      and not exists (select 1 from workflow_start s where s.workflow_id = 'version/' || v.id || '/test')
    order by id limit ${limit}`.execute(db)
  return rows
}
