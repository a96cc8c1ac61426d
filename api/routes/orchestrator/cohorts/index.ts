import { claimStage } from './claim-stage.ts'
import { getCohortCapabilities } from './get-cohort-capabilities.ts'
import { getCohortHealth } from './get-cohort-health.ts'
import { getTaskCohort } from './get-task-cohort.ts'
import { listCohortEvents } from './list-cohort-events.ts'
import { planCohort } from './plan-cohort.ts'
import { runCohort } from './run-cohort.ts'

export const cohorts = [
  getCohortHealth,
  getCohortCapabilities,
  planCohort,
  runCohort,
  claimStage,
  getTaskCohort,
  listCohortEvents,
]
