import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { Account } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { presentAccount } from '../present.ts'
import { params, accountNotFound } from './account.ts'

export const getAccount = route({
  operationId: 'getAccount',
  summary: 'Read an account',
  method: 'GET',
  path: '/admin/accounts/{account_id}',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Account },
  errors: ['not_found'],

  async handler({ params: { account_id } }, { db }) {
    const row = await accountRepository.findAccount(db, account_id)
    if (!row) throw accountNotFound()
    return presentAccount(row)
  },
})
