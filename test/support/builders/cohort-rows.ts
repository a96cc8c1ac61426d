import { sql } from 'kysely'
import type { NewCohortEdge } from '../../../db/tables/cohorts.ts'
import { newId } from '../../../domain/ids.ts'
import type { TestApi } from '../servers/api.ts'
import { buildEndpoint, buildHeldTask } from './build-endpoint.ts'

/** Builds a running cohort of two stages with these hand-overs between them, as rows without a workflow. */
export async function buildCohortRows(
  api: TestApi,
  edges: readonly Partial<NewCohortEdge>[],
): Promise<{ cohortId: string; edges: string[] }> {
  const { db } = api.database
  const { accountId } = await api.account()
  const endpoint = await buildEndpoint(db, accountId)
  const [cohortId, from, to] = [newId(), newId(), newId()]
  await db
    .insertInto('cohort')
    .values({
      id: cohortId,
      task_id: await buildHeldTask(db, accountId),
      account_id: accountId,
      user_id: 'a user',
      plan_id: newId(),
      request: '{}',
      status: 'running',
      input: '{}',
      labels: '{}',
      deadline_at: sql<Date>`now() + interval '1 hour'`,
      estimated_latency_ms: 1,
      critical_path: '[]',
    })
    .execute()
  await db
    .insertInto('cohort_stage')
    .values(
      [from, to].map((id, position) => ({
        id,
        cohort_id: cohortId,
        account_id: accountId,
        name: `stage_${position}`,
        position,
        specification: '{}',
        endpoint_id: endpoint.id,
        model_key: endpoint.model_key,
        price_micro: 0,
      })),
    )
    .execute()
  const ids = edges.map(() => newId())
  await db
    .insertInto('cohort_edge')
    .values(
      edges.map((edge, i) => ({
        id: ids[i] ?? '',
        cohort_id: cohortId,
        name: `edge_${i}`,
        from_stage_id: from,
        from_path: '',
        to_stage_id: to,
        to_path: '/input',
        kind: 'embedding' as const,
        max_bytes: 1_000_000,
        source_fingerprint: 'a',
        target_fingerprint: 'b',
        min_score: 0.9,
        ...edge,
      })),
    )
    .execute()
  return { cohortId, edges: ids }
}
