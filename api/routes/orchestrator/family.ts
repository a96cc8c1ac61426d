import type { Family } from '../../http/family.ts'
import { getObject } from '../objects/get-object.ts'
import { putObject } from '../objects/put-object.ts'
import { admin } from './admin/index.ts'
import { cohortEdges } from './cohorts/edges/index.ts'
import { cohorts } from './cohorts/index.ts'
import { evaluator } from './evaluator/index.ts'
import { claimJob } from './jobs/claim-job.ts'
import { leases } from './leases/index.ts'
import { nodes } from './nodes/index.ts'
import { claimTask } from './task-claims/claim-task.ts'
import { readTaskInput } from './task-claims/read-task-input.ts'

/** Routes of nodes and operators. */
export const orchestrator: Family = {
  name: 'orchestrator',
  prefix: '/api/v1',
  errors: 'builder',
  routes: [
    ...admin,
    ...nodes,
    claimJob,
    ...leases,
    ...evaluator,
    claimTask,
    readTaskInput,
    ...cohorts,
    ...cohortEdges,
  ],
}

/** The few routes that also exist at the root: `/tasks/{task_id}/claim`, stored objects, the OpenAPI description. */
export const root: Family = {
  name: 'root',
  prefix: '',
  errors: 'builder',
  routes: [getObject, putObject, { ...claimTask, operationId: 'claimTaskAtRoot' }],
}
