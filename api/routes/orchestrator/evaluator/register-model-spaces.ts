import * as evidenceRepository from '../../../../db/repositories/cohorts/evidence.ts'
import * as spaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import { invalid } from '../../../../domain/errors.ts'
import {
  type ModelSpace,
  ModelSpaceRegistration,
  ModelSpacesRegistered,
} from '../../../../schemas/cohorts/evaluator.ts'
import { ensureSpaces } from '../../../cohorts/ensure-spaces.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'

type SameAs = NonNullable<ModelSpaceRegistration['same_as']>

export const registerModelSpaces = route({
  operationId: 'registerModelSpaces',
  summary: 'Register the spaces of the values that a model produces and accepts',
  method: 'POST',
  path: '/internal/cohort/evaluator/model-spaces',
  auth: 'evaluator-token',
  body: ModelSpaceRegistration,
  success: { status: 200, schema: ModelSpacesRegistered },

  async handler({ body }, services) {
    const { model_config_id, spaces: own, same_as = [], registered_by = 'evaluator' } = body
    const { db } = services
    const names = [...own, ...same_as].map(({ name }) => name)
    const twice = names.findIndex((name, i) => names.indexOf(name) < i)
    if (twice !== -1) {
      const loc = twice < own.length ? ['spaces', twice] : ['same_as', twice - own.length]
      throw invalid(['body', ...loc, 'name'], 'another space in this request has this name')
    }
    const spaces = [...own, ...(await equalsOf(services, same_as))]

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

/** Copies spaces from other models, under the names in this request. */
async function equalsOf(services: Services, wanted: SameAs): Promise<ModelSpace[]> {
  const ids = [...new Set(wanted.map(({ model_config_id }) => model_config_id))]
  await ensureSpaces(
    services,
    await spaceRepository.findVersionsBehind(services.db, { endpoints: [], models: ids }),
  )
  const known = await spaceRepository.findActiveSpaces(services.db, ids)
  return wanted.map(({ name, role, model_config_id, space }, i) => {
    const of = known.filter((one) => one.model_config_id === model_config_id)
    const found = of.find((one) => one.name === space)
    if (found) return { ...found.specification, name, role }
    const names = of.map((one) => one.name).join(', ') || 'none'
    throw invalid(
      ['body', 'same_as', i, 'space'],
      `the model ${model_config_id} has no active space with this name; it has: ${names}`,
    )
  })
}
