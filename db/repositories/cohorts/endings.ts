import { sql, type Transaction } from 'kysely'
import {
  isOpenStage,
  OutputsTooLargeError,
  outputsOf,
  outputsTooLarge,
} from '../../../domain/cohorts/outcome.ts'
import { filesNamedIn } from '../../../domain/cohorts/stages/files.ts'
import { capture, refund, type Transfer } from '../../../domain/ledger.ts'
import { COHORT_LIMITS } from '../../../schemas/cohorts/plan.ts'
import type { CohortState } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'
import type { CohortFacts, CohortFault } from '../../tables/cohorts.ts'
import { type Outcome, recordOutputs, settlementOf } from '../tasks/tasks.ts'
import { settleTasks } from '../tasks/writes.ts'
import {
  bookTransfers,
  isOpenCohort,
  type LockedCohort,
  lockCohort,
  paidElsewhere,
  readSpecifications,
} from './cohorts.ts'
import { cancelEdges } from './edge-retries.ts'
import { appendCohortEvents, type NewCohortEvent } from './events.ts'
import { recallStages, revokeStages } from './stage-leases.ts'

/** How a cohort ends: with its outputs, or with a fault; cancellation has its own fault code. */
export type CohortEnding =
  | { status: 'succeeded' }
  /** Without a message, the stage's message is used. `request` says who requested a cancellation, if known. */
  | {
      status: 'failed' | 'cancelled'
      fault: Omit<CohortFault, 'message'> & { message?: string }
      request?: { user_id?: string }
    }

type FullEnding = { status: 'succeeded' } | { status: 'failed' | 'cancelled'; fault: CohortFault }

type EndedStage = LockedCohort['stages'][number]

/** Returns an ending with its message. A cohort has not succeeded while any of its stages is still open. */
function fullEnding(ending: CohortEnding, stages: readonly EndedStage[]): FullEnding {
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
 * Ends a cohort with its task, its stages, its hand-overs, its ledger entries and its events in one transaction. If the
 * run succeeds, every finished stage is paid for; otherwise every hold is refunded. `isRecalled` notifies the nodes
 * immediately; `onlyComplete` leaves a cohort open unless all of its stages have succeeded. Safe to repeat: returns
 * false for a cohort that has already ended or is left open.
 */
export async function endCohort(
  trx: Transaction<Database>,
  cohortId: string,
  wanted: CohortEnding,
  now: Date,
  { isRecalled = false, onlyComplete = false }: { isRecalled?: boolean; onlyComplete?: boolean } = {},
): Promise<boolean> {
  const locked = await lockCohort(trx, cohortId)
  if (!locked || !isOpenCohort(locked.cohort)) return false
  const { cohort, stages, edges } = locked
  if (onlyComplete && !stages.every(({ status }) => status === 'succeeded')) return false
  const { ending, result } = await withResult(trx, locked, fullEnding(wanted, stages))
  const isDone = ending.status === 'succeeded'
  const atWork = stages.filter(isOpenStage)
  const ids = stages.map(({ id }) => id)
  if (isRecalled) await recallStages(trx, ids)
  else await revokeStages(trx, ids)
  if (atWork.length > 0)
    await trx
      .updateTable('cohort_stage')
      .set({ status: 'cancelled', completed_at: now })
      .where('cohort_id', '=', cohortId)
      .where('status', 'not in', ['succeeded', 'failed', 'skipped', 'cancelled'])
      .execute()
  const edgeEvents = await cancelEdges(trx, cohortId, edges)
  await settleMoney(trx, cohort, stages, isDone)
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
  const request = 'request' in wanted ? wanted.request : undefined
  await appendCohortEvents(trx, cohortId, [
    ...(request ? [{ type: 'cohort.cancel_requested' as const, data: { ...request } }] : []),
    ...edgeEvents,
    ...atWork.map(cancelledEvent),
    {
      type: `cohort.${ending.status}`,
      data: isDone ? {} : { code: ending.fault.code, ...whereOf(ending.fault) },
    },
  ])
  return true
}

/**
 * Returns an ending with the outputs of a successful cohort, as JSON. Outputs that are too large to read make it fail.
 */
async function withResult(
  trx: Transaction<Database>,
  { cohort, stages }: LockedCohort,
  ending: FullEnding,
): Promise<{ ending: FullEnding; result?: string }> {
  if (ending.status !== 'succeeded') return { ending }
  const { outputs } = cohort.outline
  const mostBytes = COHORT_LIMITS.valueBytes
  try {
    const given = stages.filter(({ name }) => outputs.some(({ stage_id }) => stage_id === name))
    const idsOf = (all: readonly EndedStage[]) => all.map(({ id }) => id)
    const results = await readOutputs(trx, idsOf(given), mostBytes)
    const skipped = idsOf(given.filter(({ status }) => status === 'skipped'))
    const specs = [...(await readSpecifications(trx, skipped)).values()]
    return { ending, result: outputsOf({ stages: specs, outputs }, stages, { results, mostBytes }) }
  } catch (err) {
    if (!(err instanceof OutputsTooLargeError)) throw err
    return { ending: { status: 'failed', fault: { code: 'outputs_too_large', message: err.message } } }
  }
}

/** Returns results by stage name; throws before it reads more than `mostBytes`. */
async function readOutputs(
  trx: Transaction<Database>,
  ids: readonly string[],
  mostBytes: number,
): Promise<Map<string, Buffer>> {
  const found = () =>
    trx
      .selectFrom('cohort_stage')
      .where('id', '=', sql<string>`any(${ids}::uuid[])`)
      .where('result', 'is not', null)
  const { bytes } = await found()
    .select(sql<string>`coalesce(sum(octet_length(result)), 0)`.as('bytes'))
    .executeTakeFirstOrThrow()
  if (Number(bytes) > mostBytes) throw new OutputsTooLargeError(outputsTooLarge(mostBytes))
  const rows = await found()
    .select((eb) => ['name', eb.ref('result').$notNull().as('result')])
    .execute()
  return new Map(rows.map(({ name, result }) => [name, result]))
}

const cancelledEvent = ({ name, attempt, node_id }: EndedStage): NewCohortEvent => ({
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
  { id }: CohortFacts,
  ending: FullEnding,
  now: Date,
): Promise<void> {
  const status: CohortState = ending.status
  await trx
    .updateTable('cohort')
    .set({
      status,
      error: ending.status === 'succeeded' ? null : JSON.stringify(ending.fault),
      completed_at: now,
    })
    .where('id', '=', id)
    .execute()
}

const taskOutcome = (
  { created_at, started_at }: CohortFacts,
  ending: FullEnding,
  result: string | undefined,
  now: Date,
): Outcome =>
  ending.status === 'succeeded'
    ? {
        status: 'succeeded',
        result: Buffer.from(result ?? 'null'),
        inferenceTimeMs: now.getTime() - (started_at ?? created_at).getTime(),
        modelState: 'resident',
      }
    : { status: 'failed', error: ending.fault.message }

async function settleMoney(
  trx: Transaction<Database>,
  { account_id: accountId }: CohortFacts,
  stages: readonly EndedStage[],
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
  const paid = isDone ? await paidMeanwhile(trx, stages) : new Set()
  const paidTo = new Map<string, string>()
  for (const { id, status, price_micro, node_id, taken_from } of stages) {
    const amount = held.get(id) ?? 0
    const isPaid =
      isDone && status === 'succeeded' && (node_id ?? taken_from) !== null && !paid.has(taken_from)
    const price = isPaid ? Math.min(amount, Number(price_micro)) : 0
    const owner = price > 0 || taken_from === null ? owners.get(id) : undefined
    const transfers: Transfer[] = [
      ...(isPaid ? capture({ accountId, priceMicro: price }, owner) : []),
      ...refund({ accountId, priceMicro: amount - price }),
    ]
    await bookTransfers(trx, id, transfers)
    if (isPaid && owner !== undefined) paidTo.set(id, owner)
    if (paid.has(taken_from))
      await trx.updateTable('cohort_stage').set({ price_micro: 0 }).where('id', '=', id).execute()
  }
  if (paidTo.size > 0)
    await sql`update cohort_stage set paid_to = paid.owner
      from unnest(${[...paidTo.keys()]}::uuid[], ${[...paidTo.values()]}::uuid[]) as paid (id, owner)
      where cohort_stage.id = paid.id`.execute(trx)
}

/**
 * Returns which of the reused results have been paid for by now. Runs that reuse the same results end one after
 * another, because each locks the stages that produced them, in the order of `lockCohort`.
 */
async function paidMeanwhile(
  trx: Transaction<Database>,
  stages: readonly EndedStage[],
): Promise<Set<string | null>> {
  const taken = stages.flatMap(({ taken_from }) => taken_from ?? [])
  if (taken.length === 0) return new Set()
  await trx
    .selectFrom('cohort_stage')
    .select('id')
    .where('id', 'in', taken)
    .orderBy('cohort_id')
    .orderBy('position')
    .forUpdate()
    .execute()
  return paidElsewhere(trx, taken)
}

/** Returns, by stage id, the owner of the node that produced the stage's result, even if an earlier run produced it. */
async function ownersOf(
  trx: Transaction<Database>,
  stages: readonly EndedStage[],
): Promise<Map<string, string>> {
  const ids = stages.map(({ id }) => id)
  const rows = await trx
    .selectFrom('cohort_stage as stage')
    .innerJoin('cohort_stage as made', (join) =>
      join.on(sql<boolean>`made.id = coalesce(stage.taken_from, stage.id)`),
    )
    .innerJoin('node', 'node.id', 'made.node_id')
    .select(['stage.id', 'node.account_id'])
    .where('stage.id', 'in', ids)
    .execute()
  return new Map(rows.map(({ id, account_id }) => [id, account_id]))
}
