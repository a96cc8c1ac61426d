import { randomUUID } from 'node:crypto'
import { type Insertable, type Kysely, sql } from 'kysely'
import type { Database } from '../../../../db/tables.ts'
import type {
  CohortEdgeRow,
  CohortRow,
  CohortStageRow,
  CohortTable,
  NewCohortEdge,
  NewCohortStage,
} from '../../../../db/tables/cohorts.ts'
import { newId } from '../../../../domain/ids.ts'
import { sha256Hex } from '../../../../platform/signing.ts'
import { buildHeldTask } from '../build-endpoint.ts'

/** Builds a running cohort for an account, with its task. */
export async function buildCohort(
  db: Kysely<Database>,
  accountId: string,
  overrides: Partial<Insertable<CohortTable>> = {},
): Promise<CohortRow> {
  return db
    .insertInto('cohort')
    .values({
      id: newId(),
      task_id: await buildHeldTask(db, accountId),
      account_id: accountId,
      user_id: 'somebody',
      plan_id: newId(),
      request: '{"edges":[],"outputs":[],"constraints":{}}',
      status: 'running',
      input: '{}',
      labels: '{}',
      deadline_at: new Date(Date.now() + 3_600_000),
      estimated_latency_ms: 1_000,
      critical_path: '[]',
      ...overrides,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Builds a stage of a cohort, claimed by its node. */
export function buildStage(
  db: Kysely<Database>,
  cohort: Pick<CohortRow, 'id' | 'account_id'>,
  overrides: Partial<NewCohortStage> = {},
): Promise<CohortStageRow> {
  const id = newId()
  return db
    .insertInto('cohort_stage')
    .values({
      id,
      cohort_id: cohort.id,
      account_id: cohort.account_id,
      name: `stage-${id.slice(-12)}`,
      position: 0,
      specification: '{}',
      endpoint_id: newId(),
      model_key: 'model',
      price_micro: 0,
      status: 'waiting',
      ...overrides,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The fingerprint of the space of edges from `buildEdge`. */
export const TEXT_SPACE = sha256Hex('{"kind":"text"}')

/** Builds an edge between two stages of a cohort. */
export function buildEdge(
  db: Kysely<Database>,
  [from, to]: readonly [Pick<CohortStageRow, 'id' | 'cohort_id'>, Pick<CohortStageRow, 'id'>],
  overrides: Partial<NewCohortEdge> = {},
): Promise<CohortEdgeRow> {
  const id = newId()
  return db
    .insertInto('cohort_edge')
    .values({
      id,
      cohort_id: from.cohort_id,
      name: `edge-${id.slice(-12)}`,
      from_stage_id: from.id,
      from_path: '',
      to_stage_id: to.id,
      to_path: '/text',
      kind: 'text',
      max_bytes: 2 ** 30,
      source_fingerprint: TEXT_SPACE,
      target_fingerprint: TEXT_SPACE,
      min_score: 0.9,
      ...overrides,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Leases a stage to a node; returns the lease token. */
export async function leaseStage(
  db: Kysely<Database>,
  stage: Pick<CohortStageRow, 'id' | 'account_id'>,
  nodeId: string,
): Promise<string> {
  const token = randomUUID()
  await sql`
    insert into lease (token, kind, subject_id, account_id, node_id, attempt, state, lease_s, expires_at)
    select ${token}, 'stage', ${stage.id}, ${stage.account_id}, ${nodeId},
      (select coalesce(max(attempt), 0) + 1 from lease where kind = 'stage' and subject_id = ${stage.id}::uuid),
      'active', 60, now() + interval '1 minute'`.execute(db)
  await db.updateTable('cohort_stage').set({ node_id: nodeId }).where('id', '=', stage.id).execute()
  return token
}
