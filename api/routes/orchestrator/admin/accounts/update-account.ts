import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { Account, UpdateAccount } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { presentAccount } from '../present.ts'
import { params, accountNotFound } from './account.ts'

export const updateAccount = route({
  operationId: 'updateAccount',
  summary: 'Rename an account, set its quotas or the closed hub repositories it may use',
  method: 'PATCH',
  path: '/admin/accounts/{account_id}',
  auth: 'operations-key',
  params,
  body: UpdateAccount,
  success: { status: 200, schema: Account },
  errors: ['not_found'],

  async handler({ params: { account_id }, body: { name, training_quota, task_quota, hub_repos } }, { db }) {
    const change = { name, trainingQuota: training_quota, taskQuota: task_quota, hubRepos: hub_repos }
    const row = await accountRepository.updateAccount(db, account_id, change)
    if (!row) throw accountNotFound()
    return presentAccount(row)
  },
})
