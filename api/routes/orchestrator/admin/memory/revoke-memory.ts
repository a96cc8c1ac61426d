import * as memoryGrantRepository from '../../../../../db/repositories/memory/grants.ts'
import * as apiKeyRepository from '../../../../../db/repositories/platform/api-keys.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { awaitAcknowledgements } from '../../../../memory/await-acknowledgements.ts'
import { GrantParams } from './grant-params.ts'

export const revokeMemory = route({
  operationId: 'revokeMemory',
  summary: 'Revoke a memory grant; once this returns, the key cannot read with it',
  method: 'DELETE',
  path: '/admin/keys/{key_id}/memory-grants/{access}',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params: GrantParams,
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ params: { key_id: keyId, access } }, services) {
    const { db, now } = services
    const isRevoked = await db.transaction().execute(async (trx) => {
      if (!(await memoryGrantRepository.revokeMemory(trx, { keyId, access, now: now() }))) return false
      const accountId = (await apiKeyRepository.findKey(trx, keyId))?.account_id ?? null
      const subject = { kind: 'key', id: keyId }
      const fields = { before: { memory: access }, after: { memory: null } }
      await audit(trx, { action: 'revokeMemory', subject, accountId, ...fields })
      return true
    })
    await awaitAcknowledgements(services)
    if (!isRevoked) throw new ApiError('not_found', 'this key has no such grant')
  },
})
