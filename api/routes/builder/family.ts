import type { Family } from '../../http/family.ts'
import { account } from './account/index.ts'
import { actions } from './actions/index.ts'
import { datasets } from './datasets/index.ts'
import { endpoints } from './endpoints/index.ts'
import { health } from './health/index.ts'
import { hub } from './hub/index.ts'
import { keys } from './keys/index.ts'
import { manifest } from './manifest/index.ts'
import { memory } from './memory/index.ts'
import { modelConfigs } from './model-configs/index.ts'
import { models } from './models/index.ts'
import { tasks } from './tasks/index.ts'
import { trainingMerges } from './training-merges/index.ts'
import { trainingRuns } from './training-runs/index.ts'
import { webhooks } from './webhooks/index.ts'

/** The Builder API. A resource folder exports an array of routes; add it here. */
export const builder: Family = {
  name: 'builder',
  prefix: '/api/builder/v1',
  errors: 'builder',
  routes: [
    ...account,
    ...keys,
    ...datasets,
    ...endpoints,
    ...tasks,
    ...actions,
    ...health,
    ...manifest,
    ...modelConfigs,
    ...hub,
    ...models,
    ...trainingRuns,
    ...trainingMerges,
    ...memory,
    ...webhooks,
  ],
}
