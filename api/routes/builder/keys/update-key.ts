import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import { ApiKey, KeyParams, UpdateApiKey } from '../../../../schemas/api-key.ts'
import { audit, keyFields } from '../../../audit.ts'
import { route } from '../../../http/route.ts'
import { presentApiKey } from '../../../keys/present.ts'
import { readTerms } from '../../../keys/read-terms.ts'
import { changeKeys, keyNotFound, requireUnlimited } from './own-keys.ts'

export const updateKey = route({
  operationId: 'updateKey',
  summary: 'Change the name, the limits or the expiry of a key; every gateway applies them within a second',
  method: 'PATCH',
  path: '/keys/{key_id}',
  auth: 'api-key',
  role: 'admin',
  params: KeyParams,
  body: UpdateApiKey,
  success: { status: 200, schema: ApiKey },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params: { key_id: id }, body }, services) {
    const { accountId } = caller
    requireUnlimited(caller)
    const change = { name: body.name, ...(await readTerms(services, accountId, body)) }
    return services.db.transaction().execute((trx) =>
      changeKeys(trx, accountId, async () => {
        const before = await apiKeyRepository.findOwnKey(trx, { id, accountId })
        const row = await apiKeyRepository.updateApiKey(trx, { id, accountId }, change)
        if (!before || !row) throw keyNotFound()
        const subject = { kind: 'key', id }
        const fields = { before: keyFields(before), after: keyFields(row) }
        await audit(trx, { action: 'updateKey', subject, accountId, ...fields, caller })
        return presentApiKey(row)
      }),
    )
  },
})
