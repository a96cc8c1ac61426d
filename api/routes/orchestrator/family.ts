import type { Family } from '../../http/family.ts'
import { objects } from '../objects/index.ts'
import { admin } from './admin/index.ts'
import { cohortEdges } from './cohorts/edges/index.ts'
import { cohorts } from './cohorts/index.ts'
import { evaluator } from './evaluator/index.ts'
import { jobs } from './jobs/index.ts'
import { leases } from './leases/index.ts'
import { nodes } from './nodes/index.ts'
import { rootTaskClaims, taskClaims } from './task-claims/index.ts'

/** Routes of nodes and operators. */
export const orchestrator: Family = {
  name: 'orchestrator',
  prefix: '/api/v1',
  errors: 'builder',
  routes: [...admin, ...nodes, ...jobs, ...leases, ...evaluator, ...taskClaims, ...cohorts, ...cohortEdges],
}

/** The few routes that also exist at the root: `/tasks/{task_id}/claim`, stored objects, the OpenAPI description. */
export const root: Family = {
  name: 'root',
  prefix: '',
  errors: 'builder',
  routes: [...objects, ...rootTaskClaims],
}
