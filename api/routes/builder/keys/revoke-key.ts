import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import { KeyParams } from '../../../../schemas/api-key.ts'
import { audit } from '../../../audit.ts'
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
      return changeKeys(trx, accountId, async () => {
        const at = now()
        if (!(await apiKeyRepository.revokeApiKey(trx, id, at))) return false
        const subject = { kind: 'key', id }
        await audit(trx, { action: 'revokeKey', subject, accountId, after: { revoked_at: at }, caller })
        return true
      })
    })
    if (!revoked) throw keyNotFound()
  },
})
