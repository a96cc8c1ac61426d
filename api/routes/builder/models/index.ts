import { changeLifecycle } from './change-lifecycle.ts'
import { createModel } from './create-model.ts'
import { deleteModelVersion } from './delete-model-version.ts'
import { deleteModel } from './delete-model.ts'
import { getModelLineage } from './get-model-lineage.ts'
import { getModelUsage } from './get-model-usage.ts'
import { getModel } from './get-model.ts'
import { listModelVersions } from './list-model-versions.ts'
import { listModels } from './list-models.ts'
import { listRegistry } from './list-registry.ts'
import { updateModelVersion } from './update-model-version.ts'

export const models = [
  listRegistry,
  changeLifecycle,
  createModel,
  listModels,
  getModel,
  listModelVersions,
  updateModelVersion,
  deleteModelVersion,
  deleteModel,
  getModelLineage,
  getModelUsage,
]
