import * as evidenceRepository from '../../../../db/repositories/cohorts/evidence.ts'
import * as spaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import { invalid } from '../../../../domain/errors.ts'
import { ModelSpaceRegistration, ModelSpacesRegistered } from '../../../../schemas/cohort-evaluator.ts'
import { route } from '../../../http/route.ts'

export const registerModelSpaces = route({
  operationId: 'registerModelSpaces',
  summary: 'Say in which spaces a model gives and takes its values',
  method: 'POST',
  path: '/internal/cohort/evaluator/model-spaces',
  auth: 'evaluator-token',
  body: ModelSpaceRegistration,
  success: { status: 200, schema: ModelSpacesRegistered },

  async handler({ body: { model_config_id, spaces, registered_by = 'evaluator' } }, { db }) {
    const twice = spaces.findIndex(({ name }, i) => spaces.findIndex((other) => other.name === name) < i)
    if (twice !== -1) throw invalid(['body', 'spaces', twice, 'name'], 'another space has this name')

    return db.transaction().execute(async (trx) => {
      const model = await spaceRepository.lockModel(trx, model_config_id)
      if (!model) throw invalid(['body', 'model_config_id'], 'there is no model with this id')
      const before = await spaceRepository.newestSpaces(trx, model.versionId)
      const { generation, rows, replaced } = await spaceRepository.registerSpaces(trx, {
        versionId: model.versionId,
        modelConfigId: model_config_id,
        spaces,
        registeredBy: registered_by,
      })
      if (replaced > 0) {
        await evidenceRepository.supersedeOrphans(
          trx,
          before.map(({ fingerprint }) => fingerprint),
        )
      }
      return {
        model_config_id,
        generation,
        spaces: rows.map(({ id, name, fingerprint }) => ({ space_id: id, name, fingerprint })),
        replaced,
        registered_at: rows[0]?.created_at.toISOString() ?? '',
      }
    })
  },
})
