import { type Insertable, type Kysely, sql, type Transaction } from 'kysely'
import type { StructuredRunStatus } from '../../../schemas/cohorts/evaluator.ts'
import type { EvaluationStep } from '../../../schemas/evaluation-work.ts'
import type { Database } from '../../tables.ts'
import type { StructuredRunRow, StructuredRunTable } from '../../tables/evaluator.ts'

const ENDED = ['registered', 'rejected', 'failed'] as const

export const hasEnded = ({ status }: Pick<StructuredRunRow, 'status'>): boolean =>
  (ENDED as readonly string[]).includes(status)

export function insertRun(
  trx: Transaction<Database>,
  run: Insertable<StructuredRunTable>,
): Promise<StructuredRunRow> {
  return trx.insertInto('structured_run').values(run).returningAll().executeTakeFirstOrThrow()
}

export function findRun(db: Kysely<Database>, id: string): Promise<StructuredRunRow | undefined> {
  return db.selectFrom('structured_run').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Returns open runs, oldest first. */
export function openRuns(db: Kysely<Database>, limit: number): Promise<StructuredRunRow[]> {
  return db
    .selectFrom('structured_run')
    .selectAll()
    .where('status', 'not in', ENDED)
    .orderBy('created_at')
    .limit(limit)
    .execute()
}

/** Finds and locks a run that is about to end. */
export function lockRun(trx: Transaction<Database>, id: string): Promise<StructuredRunRow | undefined> {
  return trx.selectFrom('structured_run').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

/** Finds the run for which this node currently performs this step. */
export function findRunOfNode(
  db: Kysely<Database>,
  { id, step, nodeId }: { id: string; step: EvaluationStep; nodeId: string },
): Promise<StructuredRunRow | undefined> {
  return db
    .selectFrom('structured_run')
    .selectAll()
    .where('id', '=', id)
    .where('step', '=', step)
    .where('step_node_id', '=', nodeId)
    .where('status', 'not in', ENDED)
    .executeTakeFirst()
}

/** Assigns a step of an open run to a node. */
export async function giveStep(
  trx: Transaction<Database>,
  id: string,
  { step, nodeId, status }: { step: EvaluationStep; nodeId: string; status: StructuredRunStatus },
): Promise<void> {
  await trx
    .updateTable('structured_run')
    .set({
      step,
      step_node_id: nodeId,
      status,
      started_at: sql<Date>`coalesce(started_at, now())`,
    })
    .where('id', '=', id)
    .where('status', 'not in', ENDED)
    .execute()
}

/** Stores the map of an open run. */
export async function storeFit(
  db: Kysely<Database>,
  id: string,
  fit: NonNullable<StructuredRunRow['fit']>,
): Promise<void> {
  await db
    .updateTable('structured_run')
    .set({ fit: JSON.stringify(fit) })
    .where('id', '=', id)
    .where('status', 'not in', ENDED)
    .execute()
}

export interface RunEnding {
  status: (typeof ENDED)[number]
  reasons: readonly string[]
  verdict?: StructuredRunRow['verdict']
  evidenceId?: string
}

/** Ends an open run; `undefined` if it had already ended. */
export function endRun(
  db: Kysely<Database>,
  id: string,
  { status, reasons, verdict, evidenceId }: RunEnding,
): Promise<StructuredRunRow | undefined> {
  return db
    .updateTable('structured_run')
    .set({
      status,
      reasons: JSON.stringify(reasons),
      ...(verdict && { verdict: JSON.stringify(verdict) }),
      evidence_id: evidenceId ?? null,
      step: null,
      step_node_id: null,
      completed_at: sql<Date>`now()`,
    })
    .where('id', '=', id)
    .where('status', 'not in', ENDED)
    .returningAll()
    .executeTakeFirst()
}
