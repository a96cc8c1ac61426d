import * as cohortRepository from '../../../../db/repositories/cohorts/cohorts.ts'
import * as cohortPageRepository from '../../../../db/repositories/cohorts/pages.ts'
import { visibleNames } from '../../../../db/repositories/nodes/loads.ts'
import { CohortSummary } from '../../../../schemas/cohorts/cohort.ts'
import { TaskParams } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'
import { presentCohort } from './present.ts'
import { requireCohort } from './require-cohort.ts'

export const getTaskCohort = route({
  operationId: 'getTaskCohort',
  summary: "Get a task's cohort: its stages, its hand-overs, and what it is waiting for",
  method: 'GET',
  path: '/tasks/{task_id}/cohort',
  auth: 'cohort',
  params: TaskParams,
  success: { status: 200, schema: CohortSummary },
  isLong: true,
  errors: ['not_found'],

  async handler({ caller: { accountId }, params }, services) {
    const { db, now } = services
    const cohort = await requireCohort(services, accountId, params.task_id)
    const stages = await cohortRepository.readStages(db, cohort.id)
    const edges = await cohortRepository.readEdges(db, cohort.id)
    const ids = stages.map(({ endpoint_id }) => endpoint_id)
    const names = await cohortPageRepository.endpointNames(db, ids)
    const nodeIds = stages.flatMap(({ node_id }) => node_id ?? [])
    const nodeNames = await visibleNames(db, accountId, [...new Set(nodeIds)])
    return presentCohort(cohort, stages, edges, { names, nodeNames, now: now() })
  },
})
