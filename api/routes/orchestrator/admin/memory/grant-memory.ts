import * as memoryGrantRepository from '../../../../../db/repositories/memory/grants.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { AccountMemory } from '../../../../../schemas/memory.ts'
import { route } from '../../../../http/route.ts'
import { readAccountMemory } from './account-memory.ts'
import { GrantParams } from './grant-params.ts'

export const grantMemory = route({
  operationId: 'grantMemory',
  summary: 'Let an API key read or write the memory of its account',
  method: 'PUT',
  path: '/admin/keys/{key_id}/memory-grants/{access}',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params: GrantParams,
  success: { status: 200, schema: AccountMemory },
  errors: ['not_found'],

  async handler({ params: { key_id: keyId, access } }, services) {
    const { db } = services
    const namespace = await memoryGrantRepository.findNamespaceOfKey(db, keyId)
    if (!namespace)
      throw new ApiError('not_found', 'there is no live key with this id whose account has memory')
    await db
      .transaction()
      .execute((trx) => memoryGrantRepository.grantMemory(trx, namespace, { keyId, access }))
    await services.memory.refresh()
    return readAccountMemory(services, namespace.account_id)
  },
})
