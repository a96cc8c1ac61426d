import { AccountMemory } from '../../../../../schemas/memory.ts'
import { route } from '../../../../http/route.ts'
import { params } from '../accounts/account.ts'
import { readAccountMemory } from './account-memory.ts'

export const getAccountMemory = route({
  operationId: 'getAccountMemory',
  summary: "Get the state of an account's memory and its grants, without contents",
  method: 'GET',
  path: '/admin/accounts/{account_id}/memory',
  auth: 'operations-key',
  servedWith: 'HEARTH_MEMORY',
  params,
  success: { status: 200, schema: AccountMemory },
  errors: ['not_found'],

  handler({ params: { account_id: accountId } }, services) {
    return readAccountMemory(services, accountId)
  },
})
