import type { NewCohortEdge } from '../../../../db/tables/cohorts.ts'
import type { TestApi } from '../../servers/api.ts'
import { buildCohort, buildEdge, buildStage } from './cohorts.ts'

/** Builds a running cohort of two stages with these hand-overs between them, named by position. */
export async function buildCohortRows(
  api: TestApi,
  edges: readonly Partial<NewCohortEdge>[],
): Promise<{ cohortId: string; edges: string[]; stages: [string, string] }> {
  const { db } = api.database
  const { accountId } = await api.account()
  const cohort = await buildCohort(db, accountId)
  const stages = [await buildStage(db, cohort), await buildStage(db, cohort)] as const
  const ids: string[] = []
  for (const [i, edge] of edges.entries()) {
    ids.push((await buildEdge(db, stages, { name: `edge_${i}`, kind: 'embedding', ...edge })).id)
  }
  return { cohortId: cohort.id, edges: ids, stages: [stages[0].id, stages[1].id] }
}
