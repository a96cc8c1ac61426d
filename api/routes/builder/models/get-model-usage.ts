import * as modelUserRepository from '../../../../db/repositories/models/model-users.ts'
import { ModelParams, ModelUsage } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { requireModel } from './require-model.ts'

const MAX_ROWS = 200

export const getModelUsage = route({
  operationId: 'getModelUsage',
  summary: 'List what uses the versions of a model: endpoints, versions derived from them, and open runs',
  method: 'GET',
  path: '/models/{model_id}/usage',
  auth: 'api-key',
  params: ModelParams,
  success: { status: 200, schema: ModelUsage },
  errors: ['not_found'],

  async handler({ caller: { accountId }, params }, { db }) {
    const { id: modelId } = await requireModel(db, accountId, params.model_id)
    const users = await modelUserRepository.findModelUsers(db, { accountId, modelId, most: MAX_ROWS })
    return {
      model_id: modelId,
      endpoints: users.endpoints.map(({ endpoint_id, name, status, version_id }) => ({
        endpoint_id,
        name,
        status,
        version_id,
      })),
      versions: users.versions.map(({ version_id, name, role, of_version_id, job_id }) => ({
        version_id,
        name,
        role,
        of_version_id,
        job_id,
      })),
      jobs: users.jobs.map(({ job_id, job_name, job_type, status, of_version_id }) => ({
        job_id,
        job_name,
        job_type,
        status,
        of_version_id,
      })),
      others: users.others,
    }
  },
})
