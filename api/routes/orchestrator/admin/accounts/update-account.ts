import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { Account, UpdateAccount } from '../../../../../schemas/admin.ts'
import { accountFields, audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { presentAccount } from '../present.ts'
import { params, accountNotFound } from './account.ts'

export const updateAccount = route({
  operationId: 'updateAccount',
  summary: 'Rename an account, or set its quotas or the closed hub repositories that it may use',
  method: 'PATCH',
  path: '/admin/accounts/{account_id}',
  auth: 'operations-key',
  params,
  body: UpdateAccount,
  success: { status: 200, schema: Account },
  errors: ['not_found'],

  async handler({ params: { account_id }, body }, { db }) {
    const change = {
      name: body.name,
      trainingQuota: body.training_quota,
      taskQuota: body.task_quota,
      storageQuotaBytes: body.storage_quota_bytes,
      copyQuota: body.copy_quota,
      hubRepos: body.hub_repos,
    }
    const row = await db.transaction().execute(async (trx) => {
      const known = await accountRepository.lockAccount(trx, account_id)
      const changed = known && (await accountRepository.updateAccount(trx, account_id, change))
      if (!changed) throw accountNotFound()
      await audit(trx, {
        action: 'updateAccount',
        subject: { kind: 'account', id: account_id },
        accountId: account_id,
        before: accountFields(known),
        after: accountFields(changed),
      })
      return changed
    })
    return presentAccount(row)
  },
})
