import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { AccountUsage, UsageQuery } from '../../../../../schemas/account.ts'
import { route } from '../../../../http/route.ts'
import { readAccountUsage } from '../../../builder/account/get-usage.ts'
import { accountNotFound, params } from './account.ts'

export const getAccountUsage = route({
  operationId: 'getAccountUsage',
  summary: "Sum up an account's requests, tokens and costs by day, endpoint, key or model",
  method: 'GET',
  path: '/admin/accounts/{account_id}/usage',
  auth: 'operations-key',
  params,
  query: UsageQuery,
  success: { status: 200, schema: AccountUsage },
  errors: ['not_found'],

  async handler({ params: { account_id }, query }, services) {
    if (!(await accountRepository.findAccount(services.db, account_id))) throw accountNotFound()
    return readAccountUsage(services, account_id, query)
  },
})
