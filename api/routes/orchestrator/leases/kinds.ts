import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import { stageWork } from '../cohorts/lease-work.ts'
import { jobWork } from '../jobs/lease-work.ts'
import { taskWork } from '../task-claims/lease-work.ts'
import type { LeaseWork } from './work.ts'

const WORK: Record<LeaseRow['kind'], LeaseWork<unknown>> = {
  job: jobWork,
  task: taskWork,
  stage: stageWork,
}

/** Returns the rules of a lease's kind. */
export const workOf = ({ kind }: Pick<LeaseRow, 'kind'>): LeaseWork<unknown> => WORK[kind]
