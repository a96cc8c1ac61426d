import { type Kysely, sql, type Transaction } from 'kysely'
import type { Graph, GraphStage } from '../../../domain/cohorts/graph.ts'
import type { GraphOutline, SpecOutline } from '../../../domain/cohorts/outline.ts'
import type { Transfer } from '../../../domain/ledger.ts'
import type { CohortState, EdgeMode } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'
import type {
  CohortFacts,
  CohortRow,
  CohortEdgeRow,
  CohortStageRow,
  EdgeFacts,
  NewCohort,
  NewCohortEdge,
  NewCohortStage,
  StageFacts,
} from '../../tables/cohorts.ts'

const ENDED: ReadonlySet<CohortState> = new Set(['succeeded', 'failed', 'cancelled'])

export const isOpenCohort = ({ status }: Pick<CohortRow, 'status'>): boolean => !ENDED.has(status)

/** Inserts a cohort with its stages and hand-overs. */
export async function insertCohort(
  trx: Transaction<Database>,
  cohort: NewCohort,
  stages: readonly NewCohortStage[],
  edges: readonly NewCohortEdge[],
): Promise<void> {
  await trx.insertInto('cohort').values(cohort).execute()
  await trx.insertInto('cohort_stage').values(stages).execute()
  if (edges.length > 0) await trx.insertInto('cohort_edge').values(edges).execute()
}

/** Books a stage's transfers. Safe to repeat, because a stage has only one transfer of each kind. */
export async function bookTransfers(
  trx: Transaction<Database>,
  stageId: string,
  transfers: readonly Transfer[],
): Promise<void> {
  if (transfers.length === 0) return
  const booked = await trx
    .insertInto('ledger_transfer')
    .values(
      transfers.map(({ kind, from, to, amount_micro }) => ({
        task_id: stageId,
        kind,
        from_purse: from,
        to_purse: to,
        amount_micro,
      })),
    )
    .onConflict((oc) => oc.columns(['task_id', 'kind']).doNothing())
    .returning(['kind', 'amount_micro'])
    .execute()
  await countCosts(trx, stageId, booked)
}

/** Counts what the account pays for a stage, or gets back, toward the key that requested the run. */
async function countCosts(
  trx: Transaction<Database>,
  stageId: string,
  booked: readonly Pick<Transfer, 'kind' | 'amount_micro'>[],
): Promise<void> {
  const cost = booked.reduce((sum, { kind, amount_micro }) => {
    if (kind === 'hold') return sum + amount_micro
    return kind === 'refund' ? sum - amount_micro : sum
  }, 0)
  if (cost === 0) return
  await sql`insert into usage_delta (account_id, endpoint_id, key_id, cost_micro)
    select stage.account_id, stage.endpoint_id, task.key_id, ${cost}
    from cohort_stage stage join cohort on cohort.id = stage.cohort_id join task on task.id = cohort.task_id
    where stage.id = ${stageId} and task.key_id is not null`.execute(trx)
}

/** Returns the key that requested a cohort's run; null if it was not recorded. */
export async function keyOfCohort(db: Kysely<Database>, cohortId: string): Promise<string | null> {
  const task = await db
    .selectFrom('cohort')
    .innerJoin('task', 'task.id', 'cohort.task_id')
    .select('task.key_id')
    .where('cohort.id', '=', cohortId)
    .executeTakeFirst()
  return task?.key_id ?? null
}

/** The outline of a cohort's graph. PostgreSQL reads the large column only if there is no outline. */
export const GRAPH_OUTLINE = sql<GraphOutline>`coalesce(cohort.outline, cohort.request)`.as('outline')

/** The outline of a stage. */
export const SPEC_OUTLINE = sql<SpecOutline>`coalesce(cohort_stage.outline, cohort_stage.specification)`.as(
  'outline',
)

/** The small columns of a cohort. */
export const COHORT_FACTS = [
  'id',
  'task_id',
  'account_id',
  'user_id',
  'plan_id',
  'name',
  'status',
  'keep_outputs',
  'resume_of',
  'deadline_at',
  'estimated_latency_ms',
  'critical_path',
  'replans',
  'error',
  'event_sequence',
  'created_at',
  'started_at',
  'completed_at',
  GRAPH_OUTLINE,
] as const

/** Finds the cohort of an account's task. */
export function findCohortOfTask(
  db: Kysely<Database>,
  { taskId, accountId }: { taskId: string; accountId: string },
): Promise<CohortFacts | undefined> {
  return db
    .selectFrom('cohort')
    .select(COHORT_FACTS)
    .where('task_id', '=', taskId)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
}

/** Finds a cohort of an account. */
export function findCohort(
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string },
): Promise<CohortFacts | undefined> {
  return db
    .selectFrom('cohort')
    .select(COHORT_FACTS)
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
}

/** Reads a cohort for the process that runs it. */
export function readCohort(db: Kysely<Database>, id: string): Promise<CohortFacts | undefined> {
  return db.selectFrom('cohort').select(COHORT_FACTS).where('id', '=', id).executeTakeFirst()
}

/** Reads the input of a cohort's run; it may be as large as a megabyte. */
export async function readRunInput(db: Kysely<Database>, id: string): Promise<CohortRow['input']> {
  const { input } = await db
    .selectFrom('cohort')
    .select('input')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return input
}

/** Reads the whole graph of a cohort, which may be several megabytes. */
export async function readGraph(db: Kysely<Database>, id: string): Promise<Graph> {
  const { request } = await db
    .selectFrom('cohort')
    .select('request')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return request as unknown as Graph
}

/** Reads the full specifications of stages, by id. Their static inputs and default outputs may be several megabytes. */
export async function readSpecifications(
  db: Kysely<Database>,
  ids: readonly string[],
): Promise<Map<string, GraphStage>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('cohort_stage')
    .select(['id', 'specification'])
    .where('id', '=', sql<string>`any(${ids}::uuid[])`)
    .execute()
  return new Map(rows.map(({ id, specification }) => [id, specification as unknown as GraphStage]))
}

/** The small columns of a stage. */
export const STAGE_FACTS = [
  'id',
  'cohort_id',
  'account_id',
  'name',
  'position',
  'endpoint_id',
  'model_key',
  'price_micro',
  'fallback',
  'status',
  'attempt',
  'node_id',
  'planned_node_id',
  'model_state',
  'called_at',
  'claimed_at',
  'loaded_at',
  'started_at',
  'completed_at',
  'waiting_for',
  'run_ms',
  'tokens_in',
  'tokens_out',
  'output_kept',
  'error',
  'paid_to',
  'taken_from',
  SPEC_OUTLINE,
] as const

/** The small columns of a hand-over. */
export const EDGE_FACTS = [
  'id',
  'cohort_id',
  'name',
  'from_stage_id',
  'from_path',
  'to_stage_id',
  'to_path',
  'kind',
  'mode',
  'transports',
  'max_bytes',
  'source_space_id',
  'target_space_id',
  'source_fingerprint',
  'target_fingerprint',
  'evidence_id',
  'min_score',
  'state',
  'attempt',
  'failure',
  'transport',
  'payload_key',
  'payload_node_id',
  'encoding',
  'size_bytes',
  'sha256',
  'shape',
  'dtype',
  'transfer_ms',
  'closed',
  'consumed_at',
] as const

/** Returns the stages of a cohort in topological order. */
export function readStages(db: Kysely<Database>, cohortId: string): Promise<StageFacts[]> {
  return db
    .selectFrom('cohort_stage')
    .select(STAGE_FACTS)
    .where('cohort_id', '=', cohortId)
    .orderBy('position')
    .execute()
}

/** A stage with its result. */
export type StoredStageResult = Pick<
  CohortStageRow,
  'id' | 'name' | 'price_micro' | 'result' | 'outputs' | 'taken_from'
>

/**
 * Returns the stages of a cohort whose results are stored, for a run that reuses them: in topological order, up to
 * `mostBytes` in total.
 */
export function readResults(
  db: Kysely<Database>,
  cohortId: string,
  mostBytes: number,
): Promise<StoredStageResult[]> {
  const sized = db
    .selectFrom('cohort_stage')
    .select([
      'id',
      sql<string>`sum(octet_length(result)) over (order by position rows unbounded preceding)`.as('bytes'),
    ])
    .where('cohort_id', '=', cohortId)
    .where('status', '=', 'succeeded')
    .where('output_kept', '=', true)
    .where('result', 'is not', null)
    .as('sized')
  return db
    .selectFrom('cohort_stage')
    .select(['cohort_stage.id', 'name', 'price_micro', 'result', 'outputs', 'taken_from'])
    .innerJoin(sized, 'sized.id', 'cohort_stage.id')
    .where('sized.bytes', '<=', String(mostBytes))
    .orderBy('position')
    .execute()
}

/** Returns which of these stages were paid for by a run that reused their results. */
export async function paidElsewhere(db: Kysely<Database>, stageIds: readonly string[]): Promise<Set<string>> {
  if (stageIds.length === 0) return new Set()
  const rows = await db
    .selectFrom('cohort_stage')
    .select('taken_from')
    .where('taken_from', 'in', stageIds)
    .where('paid_to', 'is not', null)
    .execute()
  return new Set(rows.flatMap(({ taken_from }) => taken_from ?? []))
}

/** A hand-over with the transfer mode that its attempt has agreed on. */
export interface ShownEdge extends EdgeFacts {
  agreed_mode: EdgeMode | null
}

/** Returns the hand-overs of a cohort. */
export function readEdges(db: Kysely<Database>, cohortId: string): Promise<ShownEdge[]> {
  return db
    .selectFrom('cohort_edge')
    .leftJoin('cohort_edge_attempt as tried', (join) =>
      join.onRef('tried.edge_id', '=', 'cohort_edge.id').onRef('tried.attempt', '=', 'cohort_edge.attempt'),
    )
    .select(EDGE_FACTS.map((name) => `cohort_edge.${name}` as const))
    .select(sql<EdgeMode | null>`tried.agreed->>'mode'`.as('agreed_mode'))
    .where('cohort_edge.cohort_id', '=', cohortId)
    .orderBy('cohort_edge.id')
    .execute()
}

/** A cohort with its stages, without their results. */
export interface LockedCohort {
  cohort: CohortFacts
  stages: (StageFacts & Pick<CohortStageRow, 'outputs'>)[]
  edges: Pick<CohortEdgeRow, 'id' | 'attempt' | 'state'>[]
}

/**
 * Locks all rows of a cohort in the order that every writer uses: edges, stages, their leases, the cohort. Returns the
 * cohort; undefined when it does not exist.
 */
export async function lockCohort(trx: Transaction<Database>, id: string): Promise<LockedCohort | undefined> {
  const edges = await trx
    .selectFrom('cohort_edge')
    .select(['id', 'attempt', 'state'])
    .where('cohort_id', '=', id)
    .orderBy('id')
    .forUpdate()
    .execute()
  const stages = await trx
    .selectFrom('cohort_stage')
    .select([...STAGE_FACTS, 'outputs'])
    .where('cohort_id', '=', id)
    .orderBy('position')
    .forUpdate()
    .execute()
  await sql`select from lease where kind = 'stage' and state = 'active'
    and subject_id in (select id from cohort_stage where cohort_id = ${id}::uuid) order by token for update`.execute(
    trx,
  )
  const cohort = await trx
    .selectFrom('cohort')
    .select(COHORT_FACTS)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  return cohort && { cohort, stages, edges }
}
