import type { Static } from 'typebox'
import type {
  ChangeLifecycle,
  CreateModel,
  Lineage,
  Model,
  ModelList,
  ModelUsage,
  ModelListQuery,
  ModelVersion,
  ModelVersionList,
  RegistryEntry,
  RegistryList,
  RegistryQuery,
  UpdateModelVersion,
} from '../../schemas/model.ts'
import type { Operations } from '../operations.ts'

type ModelId = [model_id: string]
type VersionId = [model_id: string, version_id: string]
type ListQuery = Static<typeof ModelListQuery>

/** The account's models with their versions, and the registry of trainable and callable models. */
export function models(on: Operations) {
  return {
    create: on.send<[], Static<typeof CreateModel>, Model>({
      id: 'createModel',
      method: 'POST',
      path: '/models',
    }),
    list: on.list<[], ListQuery, Static<typeof ModelList>, 'models'>({
      id: 'listModels',
      method: 'GET',
      path: '/models',
      items: 'models',
    }),
    get: on.call<ModelId, Model>({ id: 'getModel', method: 'GET', path: '/models/{model_id}' }),
    delete: on.call<ModelId, void>({ id: 'deleteModel', method: 'DELETE', path: '/models/{model_id}' }),
    lineage: on.call<ModelId, Lineage>({
      id: 'getModelLineage',
      method: 'GET',
      path: '/models/{model_id}/lineage',
    }),
    /** Returns what uses a model's versions. */
    usage: on.call<ModelId, ModelUsage>({
      id: 'getModelUsage',
      method: 'GET',
      path: '/models/{model_id}/usage',
    }),
    versions: on.list<ModelId, ListQuery, Static<typeof ModelVersionList>, 'versions'>({
      id: 'listModelVersions',
      method: 'GET',
      path: '/models/{model_id}/versions',
      items: 'versions',
    }),
    updateVersion: on.send<VersionId, Static<typeof UpdateModelVersion>, ModelVersion>({
      id: 'updateModelVersion',
      method: 'PATCH',
      path: '/models/{model_id}/versions/{version_id}',
    }),
    deleteVersion: on.call<VersionId, void>({
      id: 'deleteModelVersion',
      method: 'DELETE',
      path: '/models/{model_id}/versions/{version_id}',
    }),
    registry: on.list<[], Static<typeof RegistryQuery>, Static<typeof RegistryList>, 'models'>({
      id: 'listRegistry',
      method: 'GET',
      path: '/models/registry',
      items: 'models',
    }),
    changeLifecycle: on.send<[model_config_id: string], Static<typeof ChangeLifecycle>, RegistryEntry>({
      id: 'changeLifecycle',
      method: 'PATCH',
      path: '/models/registry/{model_config_id}/lifecycle',
    }),
  }
}
