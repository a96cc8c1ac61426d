import { deleteEndpoint } from './delete-endpoint.ts'
import { getEndpoint } from './get-endpoint.ts'
import { getScaling } from './get-scaling.ts'
import { inferAsync } from './infer-async.ts'
import { infer } from './infer.ts'
import { listEndpoints } from './list-endpoints.ts'
import { listInferenceModels } from './list-inference-models.ts'
import { registerForInference } from './register-for-inference.ts'
import { setScaling } from './set-scaling.ts'
import { updateEndpoint } from './update-endpoint.ts'
import { uploadInput } from './upload-input.ts'

export const endpoints = [
  listInferenceModels,
  listEndpoints,
  getEndpoint,
  updateEndpoint,
  deleteEndpoint,
  getScaling,
  setScaling,
  registerForInference,
  infer,
  inferAsync,
  uploadInput,
]
