import { claimStage } from './claim-stage.ts'
import { getTaskCohort } from './get-task-cohort.ts'
import { listCohortEvents } from './list-cohort-events.ts'
import { planCohort } from './plan-cohort.ts'
import { runCohort } from './run-cohort.ts'

export const cohorts = [planCohort, runCohort, claimStage, getTaskCohort, listCohortEvents]
