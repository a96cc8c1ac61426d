import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import { KeyParams } from '../../../../schemas/api-key.ts'
import { route } from '../../../http/route.ts'
import { changeKeys, keyNotFound, requireUnlimited } from './own-keys.ts'

export const revokeKey = route({
  operationId: 'revokeKey',
  summary: 'Revoke a key of the account; every gateway refuses it within a second',
  method: 'DELETE',
  path: '/keys/{key_id}',
  auth: 'api-key',
  params: KeyParams,
  success: { status: 204 },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params: { key_id: id } }, { db, now }) {
    const { accountId } = caller
    requireUnlimited(caller)
    const revoked = await db.transaction().execute(async (trx) => {
      if (!(await apiKeyRepository.findOwnKey(trx, { id, accountId }))) return false
      return changeKeys(trx, accountId, () => apiKeyRepository.revokeApiKey(trx, id, now()))
    })
    if (!revoked) throw keyNotFound()
  },
})
