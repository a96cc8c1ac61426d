import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import * as apiKeyRepository from '../../../../../db/repositories/platform/api-keys.ts'
import { CreateApiKey, CreatedApiKey } from '../../../../../schemas/api-key.ts'
import { audit, keyFields } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { presentApiKey } from '../../../../keys/present.ts'
import { readTerms } from '../../../../keys/read-terms.ts'
import { accountNotFound } from '../accounts/account.ts'
import { params } from '../accounts/account.ts'

export const createApiKey = route({
  operationId: 'createApiKey',
  summary: 'Create an API key; it is shown only once. The first key of an account always gets the role admin',
  method: 'POST',
  path: '/admin/accounts/{account_id}/keys',
  auth: 'operations-key',
  params,
  body: CreateApiKey,
  success: { status: 201, schema: CreatedApiKey },
  errors: ['not_found'],

  async handler({ params: { account_id }, body }, services) {
    const { db } = services
    const { name, role = 'operator', tools = null } = body
    if (!(await accountRepository.findAccount(db, account_id))) throw accountNotFound()
    const { limits = null, expiresAt = null } = await readTerms(services, account_id, body)
    const created = { accountId: account_id, name, role, tools, limits, expiresAt }
    return db.transaction().execute(async (trx) => {
      const { row, key } = await apiKeyRepository.createApiKey(trx, created)
      const subject = { kind: 'key', id: row.id }
      await audit(trx, { action: 'createApiKey', subject, accountId: account_id, after: keyFields(row) })
      return { ...presentApiKey(row), api_key: key }
    })
  },
})
