import type { Static } from 'typebox'
import * as modelRepository from '../../../../db/repositories/models/models.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { CreateModel, Model } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { assertItemLimit } from '../../../storage/account-items.ts'
import { presentModel } from './present.ts'

export const createModel = route({
  operationId: 'createModel',
  summary: 'Create a model from a trained version; the name of an existing model adds its next version',
  method: 'POST',
  path: '/models',
  auth: 'api-key',
  body: CreateModel,
  success: { status: 201, schema: Model },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { accountId }, body }, { db, now, config }) {
    const by = versionIn(body)
    const row = await db.transaction().execute(async (trx) => {
      // Lock the model before the version, as `releaseVersions` does.
      const id = newId()
      const model = await modelRepository.ensureModel(trx, {
        id,
        account_id: accountId,
        name: body.name,
        created_at: now(),
      })
      // Another version of an existing model doesn't count as a model.
      if (model.id === id) await assertItemLimit(trx, config, { accountId, kind: 'models' })
      const version = await modelRepository.shareLockOwnVersion(trx, accountId, by)
      if (!version) throw new ApiError('not_found', 'your account has no such version')
      if (version.model_id === model.id) return model
      if (await modelRepository.adoptVersion(trx, version.id, model.id)) return model
      throw new ApiError('conflict', 'this version is part of another model', {
        details: { model_id: version.model_id },
      })
    })
    return presentModel(row, (await modelRepository.readLatestVersions(db, [row.id])).get(row.id))
  },
})

/** The schema requires exactly one of the two ids. */
const versionIn = ({ version_id, job_id = '' }: Static<typeof CreateModel>) =>
  version_id === undefined ? { job_id } : { version_id }
