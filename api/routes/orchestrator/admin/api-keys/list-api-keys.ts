import Type from 'typebox'
import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import * as apiKeyRepository from '../../../../../db/repositories/platform/api-keys.ts'
import { ApiKey } from '../../../../../schemas/api-key.ts'
import { route } from '../../../../http/route.ts'
import { presentApiKey } from '../../../../keys/present.ts'
import { accountNotFound } from '../accounts/account.ts'
import { params } from '../accounts/account.ts'

export const listApiKeys = route({
  operationId: 'listApiKeys',
  summary: "List an account's API keys, without the keys themselves",
  method: 'GET',
  path: '/admin/accounts/{account_id}/keys',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Type.Object({ keys: Type.Array(ApiKey) }) },
  errors: ['not_found'],

  async handler({ params: { account_id } }, { db }) {
    if (!(await accountRepository.findAccount(db, account_id))) throw accountNotFound()
    return { keys: (await apiKeyRepository.listApiKeys(db, account_id)).map(presentApiKey) }
  },
})
