import { createCandidateActivities } from './candidates.ts'
import { createDatasetActivities } from './datasets.ts'
import type { ControlDeps } from './deps.ts'
import { createInferenceActivities } from './inference.ts'
import { createKillSwitchActivities } from './kill-switch.ts'
import { createMaintenanceActivities } from './maintenance.ts'
import { createReconcileActivities } from './reconcile.ts'
import { createTrainingActivities } from './training.ts'
import { createWaitingActivities } from './waiting-jobs.ts'

/** Every activity of the `control` queue; each is safe to repeat (its doc line says why). */
export const createControlActivities = (deps: ControlDeps) => ({
  ...createCandidateActivities(deps),
  ...createDatasetActivities(deps),
  ...createInferenceActivities(deps),
  ...createKillSwitchActivities(deps),
  ...createMaintenanceActivities(deps),
  ...createReconcileActivities(deps),
  ...createTrainingActivities(deps),
  ...createWaitingActivities(deps),
})
export type ControlActivities = ReturnType<typeof createControlActivities>
