import { ApiError } from '../../../../domain/errors.ts'
import { ModelVersionParams } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { releaseVersions } from './release-versions.ts'

export const deleteModelVersion = route({
  operationId: 'deleteModelVersion',
  summary: 'Remove an unused version from its model; the run that produced it keeps it',
  method: 'DELETE',
  path: '/models/{model_id}/versions/{version_id}',
  auth: 'api-key',
  params: ModelVersionParams,
  success: { status: 204 },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { accountId }, params: { model_id: modelId, version_id: versionId } }, { db }) {
    const released = await db
      .transaction()
      .execute((trx) => releaseVersions(trx, { accountId, modelId, versionId }))
    if (released === 0) throw new ApiError('not_found', 'this model has no version with this id')
  },
})
