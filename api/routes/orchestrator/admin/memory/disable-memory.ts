import * as memoryNamespaceRepository from '../../../../../db/repositories/memory/namespaces.ts'
import { AccountMemory } from '../../../../../schemas/memory.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { awaitAcknowledgements } from '../../../../memory/await-acknowledgements.ts'
import { params } from '../accounts/account.ts'
import { noMemory, readAccountMemory } from './account-memory.ts'

export const disableMemory = route({
  operationId: 'disableMemory',
  summary: "Disable an account's memory: nothing is read or written, and all entries are retained",
  method: 'POST',
  path: '/admin/accounts/{account_id}/memory/disable',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params,
  success: { status: 200, schema: AccountMemory },
  errors: ['not_found'],

  async handler({ params: { account_id: accountId } }, services) {
    const isFound = await services.db.transaction().execute(async (trx) => {
      if (!(await memoryNamespaceRepository.disableNamespace(trx, accountId))) return false
      const subject = { kind: 'account', id: accountId }
      await audit(trx, { action: 'disableMemory', subject, accountId, after: { memory: 'disabled' } })
      return true
    })
    if (!isFound) throw noMemory()
    await awaitAcknowledgements(services)
    return readAccountMemory(services, accountId)
  },
})
