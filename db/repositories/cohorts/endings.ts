import type { Transaction } from 'kysely'
import type { Graph } from '../../../domain/cohorts/graph.ts'
import { isOpenStage, outputsOf } from '../../../domain/cohorts/outcome.ts'
import { filesNamedIn } from '../../../domain/cohorts/stage-files.ts'
import { capture, refund, type Transfer } from '../../../domain/ledger.ts'
import type { CohortState } from '../../../schemas/cohort-vocabulary.ts'
import type { Database } from '../../tables.ts'
import type { CohortFault, CohortRow, CohortStageRow } from '../../tables/cohorts.ts'
import { type Outcome, recordOutputs, settlementOf } from '../tasks/tasks.ts'
import { settleTasks } from '../tasks/writes.ts'
import { bookTransfers, isOpenCohort, lockCohort } from './cohorts.ts'
import { appendCohortEvents, type NewCohortEvent } from './events.ts'

/** How a cohort ends: with its outputs, or with a fault; a cancel is a fault of its own. */
export type CohortEnding =
  | { status: 'succeeded' }
  /** Without a message, that of its stage holds. */
  | { status: 'failed' | 'cancelled'; fault: Omit<CohortFault, 'message'> & { message?: string } }

type FullEnding = { status: 'succeeded' } | { status: 'failed' | 'cancelled'; fault: CohortFault }

/** Returns an ending with its message. A cohort has not succeeded while a stage of it is still open. */
function fullEnding(ending: CohortEnding, stages: readonly CohortStageRow[]): FullEnding {
  if (ending.status === 'succeeded') {
    const open = stages.find(isOpenStage)
    if (!open) return ending
    const message = `the node of stage "${open.name}" ended its work without a result`
    return { status: 'failed', fault: { code: 'stage_unfinished', message, stage_id: open.name } }
  }
  const { fault } = ending
  const message =
    fault.message ?? stages.find(({ name }) => name === fault.stage_id)?.error?.message ?? fault.code
  return { ...ending, fault: { ...fault, message } }
}

/**
 * Ends a cohort with its task, its stages, its ledger entries and its events in one transaction. Every finished stage is
 * paid for when the run succeeds; otherwise every hold is refunded. Safe to repeat: returns undefined for a cohort that
 * has ended, otherwise the stages that were at work.
 */
export async function endCohort(
  trx: Transaction<Database>,
  cohortId: string,
  wanted: CohortEnding,
  now: Date,
): Promise<CohortStageRow[] | undefined> {
  const locked = await lockCohort(trx, cohortId)
  if (!locked || !isOpenCohort(locked.cohort)) return undefined
  const { cohort, stages } = locked
  const ending = fullEnding(wanted, stages)
  const isDone = ending.status === 'succeeded'
  const atWork = stages.filter(isOpenStage)
  await trx
    .updateTable('lease')
    .set({ state: 'revoked', closed_at: now })
    .where('kind', '=', 'stage')
    .where('state', '=', 'active')
    .where(
      'subject_id',
      'in',
      stages.map(({ id }) => id),
    )
    .execute()
  await trx
    .updateTable('cohort_stage')
    .set({ status: 'cancelled', completed_at: now })
    .where('cohort_id', '=', cohortId)
    .where('status', 'not in', ['succeeded', 'failed', 'skipped', 'cancelled'])
    .execute()
  await trx
    .updateTable('cohort_edge')
    .set({ closed: true, payload: null })
    .where('cohort_id', '=', cohortId)
    .execute()
  await settleMoney(trx, cohort, stages, isDone)
  const result = isDone ? outputsOf(cohort.request as unknown as Graph, stages) : undefined
  if (isDone && !cohort.keep_outputs)
    await trx
      .updateTable('cohort_stage')
      .set({ result: null, outputs: null, output_kept: false })
      .where('cohort_id', '=', cohortId)
      .execute()
  const files = isDone ? stages.flatMap(({ outputs }) => outputs ?? []) : []
  const kept = cohort.keep_outputs ? files : filesNamedIn(result, files)
  if (kept.length > 0) await recordOutputs(trx, cohort.task_id, kept)
  await endRow(trx, cohort, ending, now)
  await settleTasks(trx, [
    settlementOf(
      { id: cohort.task_id, account_id: cohort.account_id, price_micro: 0 },
      taskOutcome(cohort, ending, result, now),
      {
        now,
      },
    ),
  ])
  await appendCohortEvents(trx, cohortId, [
    ...atWork.map(cancelledEvent),
    {
      type: `cohort.${ending.status}`,
      data: isDone ? {} : { code: ending.fault.code, ...whereOf(ending.fault) },
    },
  ])
  return atWork
}

const cancelledEvent = ({ name, attempt, node_id }: CohortStageRow): NewCohortEvent => ({
  type: 'stage.cancelled',
  stageName: name,
  attempt,
  nodeId: node_id,
})

const whereOf = ({ stage_id, edge_id }: CohortFault) => ({
  ...(stage_id !== undefined && { stage_id }),
  ...(edge_id !== undefined && { edge_id }),
})

async function endRow(
  trx: Transaction<Database>,
  { id }: CohortRow,
  ending: FullEnding,
  now: Date,
): Promise<void> {
  const status: CohortState = ending.status
  await trx
    .updateTable('cohort')
    .set({
      status,
      error: ending.status === 'succeeded' ? null : JSON.stringify(ending.fault),
      waiting_for: null,
      completed_at: now,
    })
    .where('id', '=', id)
    .execute()
}

const taskOutcome = (
  { created_at, started_at }: CohortRow,
  ending: FullEnding,
  result: Record<string, unknown> | undefined,
  now: Date,
): Outcome =>
  ending.status === 'succeeded'
    ? {
        status: 'succeeded',
        result: Buffer.from(JSON.stringify(result)),
        inferenceTimeMs: now.getTime() - (started_at ?? created_at).getTime(),
        modelState: 'resident',
      }
    : { status: 'failed', error: ending.fault.message }

async function settleMoney(
  trx: Transaction<Database>,
  { account_id: accountId }: CohortRow,
  stages: readonly CohortStageRow[],
  isDone: boolean,
): Promise<void> {
  const ids = stages.map(({ id }) => id)
  const holds = await trx
    .selectFrom('ledger_transfer')
    .select(['task_id', 'amount_micro'])
    .where('task_id', 'in', ids)
    .where('kind', '=', 'hold')
    .execute()
  const held = new Map(holds.map(({ task_id, amount_micro }) => [task_id, Number(amount_micro)]))
  const owners = await ownersOf(trx, stages)
  for (const { id, status, price_micro, node_id } of stages) {
    const amount = held.get(id) ?? 0
    const isPaid = isDone && status === 'succeeded' && node_id !== null
    const price = isPaid ? Math.min(amount, Number(price_micro)) : 0
    const owner = node_id === null ? undefined : owners.get(node_id)
    const transfers: Transfer[] = [
      ...(isPaid ? capture({ accountId, priceMicro: price }, owner) : []),
      ...refund({ accountId, priceMicro: amount - price }),
    ]
    await bookTransfers(trx, id, transfers)
    if (isPaid && owner !== undefined)
      await trx.updateTable('cohort_stage').set({ paid_to: owner }).where('id', '=', id).execute()
  }
}

async function ownersOf(
  trx: Transaction<Database>,
  stages: readonly CohortStageRow[],
): Promise<Map<string, string>> {
  const ids = stages.flatMap(({ node_id }) => node_id ?? [])
  if (ids.length === 0) return new Map()
  const rows = await trx.selectFrom('node').select(['id', 'account_id']).where('id', 'in', ids).execute()
  return new Map(rows.map(({ id, account_id }) => [id, account_id]))
}
