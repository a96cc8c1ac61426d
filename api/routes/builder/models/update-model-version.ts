import * as modelRepository from '../../../../db/repositories/models/models.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { ModelVersion, ModelVersionParams, UpdateModelVersion } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { presentVersion } from './present.ts'
import { requireModel } from './require-model.ts'

export const updateModelVersion = route({
  operationId: 'updateModelVersion',
  summary: 'Rename a version, or change which accounts may start from it',
  method: 'PATCH',
  path: '/models/{model_id}/versions/{version_id}',
  auth: 'api-key',
  params: ModelVersionParams,
  body: UpdateModelVersion,
  success: { status: 200, schema: ModelVersion },
  errors: ['not_found', 'forbidden'],

  async handler({ caller: { accountId, role }, params, body }, { db }) {
    if (body.visibility !== undefined && role !== 'admin') {
      throw new ApiError('forbidden', 'only an admin key can change who may use a version')
    }
    const { id } = await requireModel(db, accountId, params.model_id)
    const row = await modelRepository.updateVersion(db, { modelId: id, versionId: params.version_id }, body)
    if (!row) throw new ApiError('not_found', 'this model has no version with this id')
    return presentVersion(row)
  },
})
