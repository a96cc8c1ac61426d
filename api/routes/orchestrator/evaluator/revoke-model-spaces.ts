import Type from 'typebox'
import * as revocationRepository from '../../../../db/repositories/cohorts/revocations.ts'
import * as spaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { ModelSpaceRevocation, ModelSpacesRevoked } from '../../../../schemas/cohorts/evaluator.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { route } from '../../../http/route.ts'
import { presentRevocation, revokeOnce } from './revoke-once.ts'

export const revokeModelSpaces = route({
  operationId: 'revokeModelSpaces',
  summary: 'Withdraw the spaces of a model and all evidence about them, until they are registered again',
  method: 'POST',
  path: '/internal/cohort/evaluator/model-spaces/{model_config_id}:revoke',
  auth: 'evaluator-token',
  params: Type.Object({ model_config_id: Uuid }),
  body: ModelSpaceRevocation,
  success: { status: 200, schema: ModelSpacesRevoked },
  errors: ['not_found'],

  async handler({ params: { model_config_id }, body }, services) {
    let versionId = ''
    const row = await revokeOnce(services, body, {
      find: async (trx) => {
        const model = await spaceRepository.lockModel(trx, model_config_id)
        if (!model) throw new ApiError('not_found', 'there is no model with this id')
        versionId = model.versionId
        const [space] = await spaceRepository.newestSpaces(trx, versionId)
        return { kind: 'model', subjectId: versionId, generation: space?.generation ?? 0 }
      },
      revoke: (trx) => revocationRepository.revokeSpaces(trx, versionId),
      stop: (trx, evidence) => revocationRepository.failEdgesAt(trx, versionId, evidence),
    })
    return { model_config_id, ...presentRevocation(row) }
  },
})
