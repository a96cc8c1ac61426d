import * as apiKeyRepository from '../../../../../db/repositories/platform/api-keys.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { ApiKey, KeyParams, UpdateApiKey } from '../../../../../schemas/api-key.ts'
import { audit, keyFields } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { presentApiKey } from '../../../../keys/present.ts'
import { readTerms } from '../../../../keys/read-terms.ts'

export const updateApiKey = route({
  operationId: 'updateApiKey',
  summary: 'Change the name, the limits or the expiry of any key; every gateway applies them within a second',
  method: 'PATCH',
  path: '/admin/keys/{key_id}',
  auth: 'operations-key',
  params: KeyParams,
  body: UpdateApiKey,
  success: { status: 200, schema: ApiKey },
  errors: ['not_found'],

  async handler({ params: { key_id: id }, body }, services) {
    const { db } = services
    const known = await apiKeyRepository.findKey(db, id)
    if (!known) throw notFound()
    const change = { name: body.name, ...(await readTerms(services, known.account_id, body)) }
    return db.transaction().execute(async (trx) => {
      const before = await apiKeyRepository.lockKey(trx, id)
      const row = await apiKeyRepository.updateApiKey(trx, { id }, change)
      if (!before || !row) throw notFound()
      await audit(trx, {
        action: 'updateApiKey',
        subject: { kind: 'key', id },
        accountId: row.account_id,
        before: keyFields(before),
        after: keyFields(row),
      })
      return presentApiKey(row)
    })
  },
})

const notFound = () => new ApiError('not_found', 'there is no live key with this id')
