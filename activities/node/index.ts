import type { NodeDeps } from './deps.ts'
import { createInferActivities } from './models/infer.ts'
import { createMergeActivities } from './jobs/merge.ts'
import { createModelActivities } from './models/load.ts'
import { createTestActivities } from './models/test-model.ts'
import { createTrainActivities } from './jobs/train.ts'

export const createNodeActivities = (deps: NodeDeps) => ({
  ...createModelActivities(deps),
  ...createInferActivities(deps),
  ...createTestActivities(deps),
  ...createTrainActivities(deps),
  ...createMergeActivities(deps),
})
export type NodeActivities = ReturnType<typeof createNodeActivities>
