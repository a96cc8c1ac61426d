import { createCohortActivities } from './cohorts/cohorts.ts'
import { createEvaluationActivities } from './cohorts/evaluations.ts'
import { createOverdueActivities } from './cohorts/overdue-work.ts'
import { createDatasetActivities } from './datasets/datasets.ts'
import type { ControlDeps } from './deps.ts'
import { createReconcileActivities } from './housekeeping/reconcile.ts'
import { createMaintenanceActivities } from './housekeeping/retention.ts'
import { createMemoryActivities } from './memory/snapshots.ts'
import { createCandidateActivities } from './models/candidates.ts'
import { createKillSwitchActivities } from './platform/kill-switch.ts'
import { createInferenceActivities } from './tasks/tasks.ts'
import { createTrainingActivities } from './training/runs.ts'
import { createWaitingActivities } from './training/waiting-jobs.ts'

/** Every activity of the `control` queue. Each one's doc comment says why it is safe to repeat. */
export const createControlActivities = (deps: ControlDeps) => ({
  ...createCandidateActivities(deps),
  ...createCohortActivities(deps),
  ...createDatasetActivities(deps),
  ...createEvaluationActivities(deps),
  ...createInferenceActivities(deps),
  ...createKillSwitchActivities(deps),
  ...createMaintenanceActivities(deps),
  ...createMemoryActivities(deps),
  ...createOverdueActivities(deps),
  ...createReconcileActivities(deps),
  ...createTrainingActivities(deps),
  ...createWaitingActivities(deps),
})
export type ControlActivities = ReturnType<typeof createControlActivities>
