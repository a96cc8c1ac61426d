import * as memoryNamespaceRepository from '../../../../../db/repositories/memory/namespaces.ts'
import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { AccountMemory } from '../../../../../schemas/memory.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { requestSnapshot } from '../../../../memory/request-snapshot.ts'
import { accountNotFound, params } from '../accounts/account.ts'
import { readAccountMemory } from './account-memory.ts'

export const enableMemory = route({
  operationId: 'enableMemory',
  summary: 'Enable memory for an account, or re-enable it; its first snapshot is built immediately',
  method: 'POST',
  path: '/admin/accounts/{account_id}/memory/enable',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params,
  success: { status: 200, schema: AccountMemory },
  errors: ['not_found'],

  async handler({ params: { account_id: accountId } }, services) {
    const { db, outbox, memory } = services
    if (!(await accountRepository.findAccount(db, accountId))) throw accountNotFound()
    const modelKey = await memory.modelKey()
    await db.transaction().execute(async (trx) => {
      const namespace = await memoryNamespaceRepository.enableNamespace(trx, accountId)
      const subject = { kind: 'account', id: accountId }
      await audit(trx, { action: 'enableMemory', subject, accountId, after: { memory: 'enabled' } })
      if (namespace.snapshot_id === null) await requestSnapshot(trx, namespace, modelKey)
    })
    outbox.poke()
    return readAccountMemory(services, accountId)
  },
})
