import * as memoryNamespaceRepository from '../../../../../db/repositories/memory/namespaces.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { awaitAcknowledgements } from '../../../../memory/await-acknowledgements.ts'
import { params } from '../accounts/account.ts'
import { noMemory } from './account-memory.ts'

export const deleteAccountMemory = route({
  operationId: 'deleteAccountMemory',
  summary: "Permanently delete an account's memory with its entries, snapshots and grants",
  method: 'DELETE',
  path: '/admin/accounts/{account_id}/memory',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params,
  success: { status: 204 },
  errors: ['not_found'],

  async handler({ params: { account_id: accountId } }, services) {
    const isFound = await services.db.transaction().execute(async (trx) => {
      if (!(await memoryNamespaceRepository.removeNamespace(trx, accountId))) return false
      const subject = { kind: 'account', id: accountId }
      await audit(trx, { action: 'deleteAccountMemory', subject, accountId, after: { memory: 'deleted' } })
      return true
    })
    if (!isFound) throw noMemory()
    await awaitAcknowledgements(services)
  },
})
