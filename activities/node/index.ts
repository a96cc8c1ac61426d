import type { NodeDeps } from './deps.ts'
import { createInferActivities } from './infer.ts'
import { createMergeActivities } from './merge.ts'
import { createModelActivities } from './models.ts'
import { createTestActivities } from './test-model.ts'
import { createTrainActivities } from './train.ts'

export const createNodeActivities = (deps: NodeDeps) => ({
  ...createModelActivities(deps),
  ...createInferActivities(deps),
  ...createTestActivities(deps),
  ...createTrainActivities(deps),
  ...createMergeActivities(deps),
})
export type NodeActivities = ReturnType<typeof createNodeActivities>
