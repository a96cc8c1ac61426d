import Type from 'typebox'
import * as apiKeyRepository from '../../../../../db/repositories/platform/api-keys.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { Uuid } from '../../../../../schemas/common.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'

export const revokeApiKey = route({
  operationId: 'revokeApiKey',
  summary: 'Revoke an API key; every gateway refuses it within a second',
  method: 'DELETE',
  path: '/admin/keys/{key_id}',
  auth: 'operations-key',
  params: Type.Object({ key_id: Uuid }),
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ params: { key_id } }, { db, now }) {
    const revoked = await db.transaction().execute(async (trx) => {
      if (!(await apiKeyRepository.revokeApiKey(trx, key_id, now()))) return false
      const key = await apiKeyRepository.findKey(trx, key_id)
      await audit(trx, {
        action: 'revokeApiKey',
        subject: { kind: 'key', id: key_id },
        accountId: key?.account_id ?? null,
        after: { revoked_at: key?.revoked_at },
      })
      return true
    })
    if (!revoked) throw new ApiError('not_found', 'there is no live key with this id')
  },
})
