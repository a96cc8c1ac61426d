import * as accountViewRepository from '../../../../../db/repositories/platform/account-views.ts'
import { AccountView } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { presentAccountView } from '../present.ts'
import { params, accountNotFound } from './account.ts'

export const getAccount = route({
  operationId: 'getAccount',
  summary: 'Get an account with its resources and open work',
  method: 'GET',
  path: '/admin/accounts/{account_id}',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: AccountView },
  errors: ['not_found'],

  async handler({ params: { account_id } }, { db }) {
    const row = await accountViewRepository.findAccountView(db, account_id)
    if (!row) throw accountNotFound()
    return presentAccountView(row)
  },
})
