import * as memoryGrantRepository from '../../../../../db/repositories/memory/grants.ts'
import { ApiError, invalid } from '../../../../../domain/errors.ts'
import { ToolFilter } from '../../../../../domain/tools/filter.ts'
import { AccountMemory, type MemoryAccess } from '../../../../../schemas/memory.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { readAccountMemory } from './account-memory.ts'
import { GrantParams } from './grant-params.ts'

export const grantMemory = route({
  operationId: 'grantMemory',
  summary: "Let an API key read or write its account's memory",
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
    requireUse(namespace, access)
    await db.transaction().execute(async (trx) => {
      await memoryGrantRepository.grantMemory(trx, namespace, { keyId, access })
      const subject = { kind: 'key', id: keyId }
      const accountId = namespace.account_id
      await audit(trx, { action: 'grantMemory', subject, accountId, after: { memory: access } })
    })
    await services.memory.refresh()
    return readAccountMemory(services, namespace.account_id)
  },
})

/** Throws a 422 for a grant that the key could not use. */
function requireUse({ role, tools }: memoryGrantRepository.MemoryKey, access: MemoryAccess): void {
  if (access !== 'write') return
  if (role === 'viewer')
    throw invalid(
      ['path', 'access'],
      'a key with the viewer role cannot write; create one with the operator role',
    )
  if (tools && !ToolFilter.ofKey(tools).allows({ slug: REMEMBER }))
    throw invalid(
      ['path', 'access'],
      `this key is limited to tools other than ${REMEMBER}, which it needs to write`,
    )
}

const REMEMBER = 'remember'
