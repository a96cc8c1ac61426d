import Type from 'typebox'
import { findAccount } from '../../../../../db/repositories/platform/accounts.ts'
import { listApiKeys as readApiKeys } from '../../../../../db/repositories/platform/api-keys.ts'
import { ApiKey } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { accountNotFound } from '../accounts/account.ts'
import { params } from '../accounts/account.ts'
import { presentApiKey } from '../present.ts'

export const listApiKeys = route({
  operationId: 'listApiKeys',
  summary: 'List the API keys of an account, without their texts',
  method: 'GET',
  path: '/admin/accounts/{account_id}/keys',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Type.Object({ keys: Type.Array(ApiKey) }) },
  errors: ['not_found'],

  async handler({ params: { account_id } }, { db }) {
    if (!(await findAccount(db, account_id))) throw accountNotFound()
    return { keys: (await readApiKeys(db, account_id)).map(presentApiKey) }
  },
})
