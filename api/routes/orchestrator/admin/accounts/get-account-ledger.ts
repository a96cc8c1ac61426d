import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { AccountLedger, LedgerQuery } from '../../../../../schemas/account.ts'
import { route } from '../../../../http/route.ts'
import { readAccountLedger } from '../../../builder/account/get-ledger.ts'
import { accountNotFound, params } from './account.ts'

export const getAccountLedger = route({
  operationId: 'getAccountLedger',
  summary: "List an account's charges, refunds and credits, newest work first, with its balance",
  method: 'GET',
  path: '/admin/accounts/{account_id}/ledger',
  auth: 'operations-key',
  params,
  query: LedgerQuery,
  success: { status: 200, schema: AccountLedger },
  errors: ['not_found'],

  async handler({ params: { account_id }, query }, services) {
    if (!(await accountRepository.findAccount(services.db, account_id))) throw accountNotFound()
    return readAccountLedger(services.db, account_id, query)
  },
})
