import type { Static } from 'typebox'
import type {
  Endpoint,
  EndpointList,
  EndpointQuery,
  InferenceModel,
  InferenceModelQuery,
  UpdateEndpoint,
} from '../../schemas/endpoint.ts'
import type { InferAccepted, InferBody, InferResponse, UploadedInput } from '../../schemas/inference-task.ts'
import type { Scaling, SetScaling } from '../../schemas/scaling.ts'
import type { FormFile, Operations } from '../operations.ts'

type EndpointId = [endpoint_id: string]

interface InferenceModels {
  models: Static<typeof InferenceModel>[]
  next_cursor: string | null
}

/** Endpoints, by id or name, and inference. */
export function endpoints(on: Operations) {
  return {
    list: on.list<[], EndpointQuery, Static<typeof EndpointList>, 'endpoints'>({
      id: 'listEndpoints',
      method: 'GET',
      path: '/endpoints',
      items: 'endpoints',
    }),
    /** Lists the public endpoints. */
    offered: on.list<[], Static<typeof InferenceModelQuery>, InferenceModels, 'models'>({
      id: 'listInferenceModels',
      method: 'GET',
      path: '/inference/models',
      items: 'models',
    }),
    get: on.call<EndpointId, Endpoint>({
      id: 'getEndpoint',
      method: 'GET',
      path: '/endpoints/{endpoint_id}',
    }),
    update: on.send<EndpointId, UpdateEndpoint, Endpoint>({
      id: 'updateEndpoint',
      method: 'PATCH',
      path: '/endpoints/{endpoint_id}',
    }),
    delete: on.call<EndpointId, void>({
      id: 'deleteEndpoint',
      method: 'DELETE',
      path: '/endpoints/{endpoint_id}',
    }),
    /** Returns how many copies of its model an endpoint has, and why; only the endpoint's account may read this. */
    scaling: on.call<EndpointId, Scaling>({
      id: 'getScaling',
      method: 'GET',
      path: '/endpoints/{endpoint_id}/scaling',
    }),
    /** Replaces all settings: a field missing from the body gets its default. */
    setScaling: on.send<EndpointId, SetScaling, Scaling>({
      id: 'setScaling',
      method: 'PUT',
      path: '/endpoints/{endpoint_id}/scaling',
      repeatable: true,
    }),
    /**
     * If the task outlasts the wait, the response shows it still open: use `tasks.wait` to follow it. Aborting the call
     * cancels the work.
     */
    infer: on.send<EndpointId, InferBody, InferResponse>({
      id: 'infer',
      method: 'POST',
      path: '/endpoints/{endpoint_id}/infer',
    }),
    inferAsync: on.send<EndpointId, InferBody, InferAccepted>({
      id: 'inferAsync',
      method: 'POST',
      path: '/endpoints/{endpoint_id}/infer:async',
    }),
    uploadInput: on.form<EndpointId, FormFile, UploadedInput>({
      id: 'uploadInput',
      method: 'POST',
      path: '/endpoints/{endpoint_id}/upload-input',
    }),
  }
}
