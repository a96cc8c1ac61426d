import * as memoryGrantRepository from '../../../../../db/repositories/memory/grants.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { route } from '../../../../http/route.ts'
import { awaitAcknowledgements } from '../../../../memory/await-acknowledgements.ts'
import { GrantParams } from './grant-params.ts'

export const revokeMemory = route({
  operationId: 'revokeMemory',
  summary: 'Revoke a grant of memory; nothing is read by it once this has answered',
  method: 'DELETE',
  path: '/admin/keys/{key_id}/memory-grants/{access}',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params: GrantParams,
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ params: { key_id: keyId, access } }, services) {
    const { db, now } = services
    const isRevoked = await db
      .transaction()
      .execute((trx) => memoryGrantRepository.revokeMemory(trx, { keyId, access, now: now() }))
    await awaitAcknowledgements(services)
    if (!isRevoked) throw new ApiError('not_found', 'this key has no such grant')
  },
})
