import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { Account, CreateAccount } from '../../../../../schemas/admin.ts'
import { accountFields, audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { presentAccount } from '../present.ts'

export const createAccount = route({
  operationId: 'createAccount',
  summary: 'Create an account',
  method: 'POST',
  path: '/admin/accounts',
  auth: 'operations-key',
  body: CreateAccount,
  success: { status: 201, schema: Account },

  async handler({ body: { name, training_quota, task_quota, storage_quota_bytes } }, { db }) {
    const row = await db.transaction().execute(async (trx) => {
      const created = await accountRepository.createAccount(trx, {
        name,
        trainingQuota: training_quota,
        taskQuota: task_quota,
        storageQuotaBytes: storage_quota_bytes,
      })
      const { id } = created
      const subject = { kind: 'account', id }
      await audit(trx, { action: 'createAccount', subject, accountId: id, after: accountFields(created) })
      return created
    })
    return presentAccount(row)
  },
})
