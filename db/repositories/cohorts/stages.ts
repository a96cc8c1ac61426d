import { type Kysely, sql, type Transaction } from 'kysely'
import { NO_TOKENS, type TokenCounts } from '../../../domain/chat/chat.ts'
import { isOpenStage } from '../../../domain/cohorts/outcome.ts'
import type { StageFile } from '../../../domain/cohorts/stages/files.ts'
import { carriedBy, isByValue } from '../../../domain/cohorts/values.ts'
import type { Database } from '../../tables.ts'
import type {
  CohortEdgeRow,
  CohortFault,
  CohortStageRow,
  EdgeFacts,
  StageFacts,
} from '../../tables/cohorts.ts'
import { takeLease } from '../nodes/leases.ts'
import { EDGE_FACTS, GRAPH_OUTLINE, STAGE_FACTS } from './cohorts.ts'
import { isReplaced, replacePayload } from './edge-retries.ts'
import { appendCohortEvents, type NewCohortEvent } from './events.ts'
import { payloadOf, ResultPayloads, type ValuePayload, valueKey } from './payload-of.ts'
import { recallStages } from './stage-leases.ts'

/** A stage with the hand-overs to it and from it. */
export interface LockedStage {
  stage: StageFacts
  incoming: EdgeFacts[]
  outgoing: EdgeFacts[]
}

/** Locks a stage after its hand-overs, which every writer locks first. */
export async function lockStage(trx: Transaction<Database>, id: string): Promise<LockedStage | undefined> {
  const edges = await trx
    .selectFrom('cohort_edge')
    .select(EDGE_FACTS)
    .where((eb) => eb.or([eb('from_stage_id', '=', id), eb('to_stage_id', '=', id)]))
    .orderBy('id')
    .forUpdate()
    .execute()
  const stage = await trx
    .selectFrom('cohort_stage')
    .select(STAGE_FACTS)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  return (
    stage && {
      stage,
      incoming: edges.filter(({ to_stage_id }) => to_stage_id === id),
      outgoing: edges.filter(({ from_stage_id }) => from_stage_id === id),
    }
  )
}

/** Locks the given stages that a node is working on, after their hand-overs. */
export async function lockStagesAtWork(
  trx: Transaction<Database>,
  ids: readonly string[],
): Promise<Pick<CohortStageRow, 'id' | 'status'>[]> {
  if (ids.length === 0) return []
  return trx
    .selectFrom('cohort_stage')
    .select(['id', 'status'])
    .where('id', 'in', ids)
    .where('status', 'in', ['called', 'loading', 'waiting', 'running'])
    .orderBy('cohort_id')
    .orderBy('position')
    .forNoKeyUpdate()
    .execute()
}

/** A hand-over with the data that it needs to carry a value. */
export type ValuedEdge = EdgeFacts & Pick<CohortEdgeRow, 'template'>

/** Reads the templates of hand-overs, in their order. */
export async function withTemplates(
  db: Kysely<Database>,
  edges: readonly EdgeFacts[],
): Promise<ValuedEdge[]> {
  if (edges.length === 0) return []
  const ids = edges.map(({ id }) => id)
  const rows = await db
    .selectFrom('cohort_edge')
    .select(['id', 'template'])
    .where('id', '=', sql<string>`any(${ids}::uuid[])`)
    .execute()
  const templates = new Map(rows.map(({ id, template }) => [id, template]))
  return edges.map((edge) => ({ ...edge, template: templates.get(edge.id) ?? null }))
}

/** Returns the hand-overs of a stage's result, and whether their consumers may begin without some of their inputs. */
export function outgoingOf(
  db: Kysely<Database>,
  stageId: string,
): Promise<(ValuedEdge & { has_quorum: boolean })[]> {
  return db
    .selectFrom('cohort_edge')
    .select([...EDGE_FACTS, 'template'])
    .select(
      sql<boolean>`exists (select from cohort_stage consumer
        where consumer.id = cohort_edge.to_stage_id and coalesce(consumer.outline, consumer.specification)->'quorum' is not null)`.as(
        'has_quorum',
      ),
    )
    .where('from_stage_id', '=', stageId)
    .execute()
}

/** Returns the outputs of a cohort that come from a stage's result. */
export async function outputsFrom(
  db: Kysely<Database>,
  stageId: string,
): Promise<{ name: string; path: string }[]> {
  const row = await db
    .selectFrom('cohort_stage')
    .innerJoin('cohort', 'cohort.id', 'cohort_stage.cohort_id')
    .select(['cohort_stage.name', GRAPH_OUTLINE])
    .where('cohort_stage.id', '=', stageId)
    .executeTakeFirst()
  if (!row) return []
  return row.outline.outputs.filter(({ stage_id }) => stage_id === row.name)
}

/**
 * Records the node on which a stage is called; returns the time of the call, which distinguishes calls of the same
 * stage. The first call of any stage sets the cohort to `running`.
 */
export async function callStage(
  trx: Transaction<Database>,
  { id, cohort_id, name, attempt, called_at }: StageFacts,
  { nodeId, isFirst }: { nodeId: string; isFirst: boolean },
): Promise<Date | null> {
  const called = await trx
    .updateTable('cohort_stage')
    .set({
      status: 'called',
      node_id: nodeId,
      called_at: sql<Date>`now()`,
      overdue_at: null,
      waiting_for: null,
      error: null,
    })
    .where('id', '=', id)
    .where('status', 'in', ['pending', 'called'])
    .returning('called_at')
    .executeTakeFirst()
  const started = isFirst
    ? await trx
        .updateTable('cohort')
        .set({ status: 'running', started_at: sql<Date>`now()` })
        .where('id', '=', cohort_id)
        .where('status', '=', 'preparing')
        .returning('id')
        .execute()
    : []
  await appendCohortEvents(trx, cohort_id, [
    ...started.map((): NewCohortEvent => ({ type: 'cohort.started' })),
    { type: 'stage.called', stageName: name, nodeId, attempt },
  ])
  return (called ?? { called_at }).called_at
}

type Step = 'loading' | 'waiting' | 'running'
const ORDER: readonly string[] = ['called', 'loading', 'waiting', 'running']
const TIMES: Record<Step, 'claimed_at' | 'loaded_at' | 'started_at'> = {
  loading: 'claimed_at',
  waiting: 'loaded_at',
  running: 'started_at',
}

/** Records a step that a stage's node reported; steps only go forward. Returns whether the step was new. */
export async function recordStep(
  trx: Transaction<Database>,
  stage: Pick<StageFacts, 'id' | 'cohort_id' | 'name' | 'node_id' | 'attempt'>,
  step: Step,
): Promise<boolean> {
  const before = ORDER.slice(0, ORDER.indexOf(step)) as CohortStageRow['status'][]
  const { numUpdatedRows } = await trx
    .updateTable('cohort_stage')
    .set({
      status: step,
      [TIMES[step]]: sql<Date>`now()`,
      // A node may run a stage without ever having reported its model as loaded.
      ...(step === 'running' && { loaded_at: sql<Date>`coalesce(loaded_at, now())` }),
    })
    .where('id', '=', stage.id)
    .where('status', 'in', before)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  const { cohort_id, name, node_id, attempt } = stage
  if (step !== 'waiting')
    await appendCohortEvents(trx, cohort_id, [
      {
        type: step === 'loading' ? 'stage.loading' : 'stage.started',
        stageName: name,
        nodeId: node_id,
        attempt,
      },
    ])
  return true
}

/**
 * Writes a value as the payload of a hand-over, for its consumer to fetch. A large value is already in the object store
 * and is handled like a payload that a node relays.
 */
async function stateValue(
  trx: Transaction<Database>,
  edge: EdgeFacts,
  { payload, ...statement }: ValuePayload,
  key: string | undefined,
): Promise<void> {
  await trx
    .updateTable('cohort_edge')
    .set({
      encoding: 'json',
      failure: null,
      ...statement,
      ...(key === undefined
        ? { state: 'transferred' as const, transport: 'inline' as const, payload }
        : { payload_key: key }),
    })
    .where('id', '=', edge.id)
    .where('state', 'in', ['planned', 'negotiating', 'negotiated'])
    .execute()
}

/** Closes hand-overs that will carry nothing. */
export async function closeEdges(trx: Transaction<Database>, edges: readonly EdgeFacts[]): Promise<void> {
  if (edges.length === 0) return
  await trx
    .updateTable('cohort_edge')
    .set({ closed: true, payload: null })
    .where(
      'id',
      'in',
      edges.map(({ id }) => id),
    )
    .execute()
}

/** Ends a stage with its result, and hands over its values in the same transaction. */
export async function completeStage(
  trx: Transaction<Database>,
  stage: StageFacts,
  outgoing: readonly EdgeFacts[],
  {
    result,
    payloads = new ResultPayloads(result),
    files,
    runMs,
    modelState,
    tokens = NO_TOKENS,
  }: {
    result: Record<string, unknown>
    /** The payloads of the result, if they have been built already. */
    payloads?: ResultPayloads
    files: readonly StageFile[] | undefined
    runMs: number
    modelState: CohortStageRow['model_state']
    tokens?: TokenCounts
  },
): Promise<void> {
  await trx
    .updateTable('cohort_stage')
    .set({
      status: 'succeeded',
      result: Buffer.from(JSON.stringify(result)),
      outputs: files ? JSON.stringify(files) : null,
      output_kept: true,
      run_ms: runMs,
      model_state: modelState,
      ...(tokens !== NO_TOKENS && { tokens_in: tokens.in, tokens_out: tokens.out }),
      started_at: sql<Date>`coalesce(started_at, now())`,
      completed_at: sql<Date>`clock_timestamp()`,
      error: null,
    })
    .where('id', '=', stage.id)
    .execute()
  const { name: stageName, node_id: nodeId, attempt } = stage
  const events: NewCohortEvent[] = []
  // The result of a quick stage may arrive before the report that it has begun.
  if (stage.started_at === null) events.push({ type: 'stage.started', stageName, nodeId, attempt })
  const byValue = outgoing.filter(({ kind }) => isByValue(kind))
  for (const edge of await withTemplates(trx, byValue)) {
    const value = payloads.of(edge)
    // A repeated stage may have a different result.
    if (isReplaced(edge, value?.sha256)) events.push(...(await replacePayload(trx, edge)))
    if (value === undefined) await closeEdges(trx, [edge])
    else await stateValue(trx, edge, value, valueKey({ edge, accountId: stage.account_id, value }))
  }
  await appendCohortEvents(trx, stage.cohort_id, [
    ...events,
    { type: 'stage.succeeded', stageName, nodeId, attempt },
  ])
}

/**
 * Returns whether every stage of a cohort has succeeded. Call it after `completeStage`, which locks the cohort's row,
 * so that when the last two stages complete at once, the second sees the first.
 */
export async function haveAllSucceeded(trx: Transaction<Database>, cohortId: string): Promise<boolean> {
  const other = await trx
    .selectFrom('cohort_stage')
    .select('id')
    .where('cohort_id', '=', cohortId)
    .where('status', '!=', 'succeeded')
    .limit(1)
    .executeTakeFirst()
  return other === undefined
}

/** Records the error of an attempt, which the workflow reads when it decides what to do next. */
export async function noteStageError(
  trx: Transaction<Database>,
  stageId: string,
  error: CohortFault & { retryable: boolean },
): Promise<void> {
  await trx
    .updateTable('cohort_stage')
    .set({ error: JSON.stringify(error) })
    .where('id', '=', stageId)
    .where('status', 'in', ['called', 'loading', 'waiting', 'running'])
    .execute()
}

/** The next attempt of a failed stage. */
export interface NextAttempt {
  attempt: number
  /** The reason to record if the node has not reported one. */
  code: string
  endpoint?: { fallback: number; endpoint_id: string; model_key: string; price_micro: number }
}

/** Resets a stage for another attempt, and revokes the previous attempt's lease. */
export async function retryStage(
  trx: Transaction<Database>,
  stage: StageFacts,
  { attempt, code, endpoint }: NextAttempt,
): Promise<void> {
  await takeLease(trx, 'stage', stage.id, 'expired')
  await trx
    .updateTable('cohort_stage')
    .set({
      status: 'pending',
      attempt,
      waiting_for: null,
      claimed_at: null,
      loaded_at: null,
      started_at: null,
      completed_at: null,
      ...(endpoint && { ...endpoint, planned_node_id: null }),
    })
    .where('id', '=', stage.id)
    .execute()
  await appendCohortEvents(trx, stage.cohort_id, [
    {
      type: endpoint ? 'stage.fell_back' : 'stage.retried',
      stageName: stage.name,
      nodeId: stage.node_id,
      attempt,
      data: { code: stage.error?.code ?? code },
    },
  ])
}

/** Ends a stage without a result. If the cohort continues, it hands over its default output or nothing. */
export async function giveUpStage(
  trx: Transaction<Database>,
  { stage, incoming, outgoing }: LockedStage,
  {
    status,
    fault,
    spare,
  }: { status: 'failed' | 'skipped' | 'cancelled'; fault: CohortFault | undefined; spare?: unknown },
): Promise<void> {
  if (!isOpenStage(stage)) return
  if (status === 'cancelled') await recallStages(trx, [stage.id])
  else await takeLease(trx, 'stage', stage.id, 'revoked')
  await trx
    .updateTable('cohort_stage')
    .set({ status, completed_at: sql<Date>`now()`, error: fault ? JSON.stringify(fault) : null })
    .where('id', '=', stage.id)
    .execute()
  await closeEdges(trx, incoming)
  // A failed stage ends its cohort; until then no other stage may run without its value.
  if (status === 'skipped' && spare !== undefined) {
    for (const edge of await withTemplates(trx, outgoing)) {
      const value = carriedBy(edge, spare)
      if (value === undefined) await closeEdges(trx, [edge])
      else await stateValue(trx, edge, payloadOf(value), undefined)
    }
  } else if (status !== 'failed') await closeEdges(trx, outgoing)
  await appendCohortEvents(trx, stage.cohort_id, [
    {
      type: `stage.${status}`,
      stageName: stage.name,
      nodeId: stage.node_id,
      attempt: stage.attempt,
      data: fault ? { code: fault.code } : {},
    },
  ])
}
