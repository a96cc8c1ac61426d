import { createEvaluateActivities } from './cohorts/evaluate.ts'
import { createCohortActivities } from './cohorts/run-stage.ts'
import type { NodeDeps } from './deps.ts'
import { createMergeActivities } from './jobs/merge.ts'
import { createTrainActivities } from './jobs/train.ts'
import { createInferActivities } from './models/infer.ts'
import { createModelActivities } from './models/load.ts'
import { createTestActivities } from './models/test-model.ts'

export const createNodeActivities = (deps: NodeDeps) => ({
  ...createModelActivities(deps),
  ...createInferActivities(deps),
  ...createTestActivities(deps),
  ...createEvaluateActivities(deps),
  ...createTrainActivities(deps),
  ...createMergeActivities(deps),
  ...createCohortActivities(deps),
})
export type NodeActivities = ReturnType<typeof createNodeActivities>
