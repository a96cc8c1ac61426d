import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import { CreateApiKey, CreatedApiKey } from '../../../../schemas/api-key.ts'
import { audit, keyFields } from '../../../audit.ts'
import { requireRole } from '../../../http/auth.ts'
import { route } from '../../../http/route.ts'
import { presentApiKey } from '../../../keys/present.ts'
import { readTerms } from '../../../keys/read-terms.ts'
import { assertItemLimit } from '../../../storage/account-items.ts'
import { requireUnlimited } from './own-keys.ts'

export const createKey = route({
  operationId: 'createKey',
  summary: 'Create an API key for the account; the key is shown only once',
  method: 'POST',
  path: '/keys',
  auth: 'api-key',
  role: 'admin',
  idempotent: true,
  body: CreateApiKey,
  success: { status: 201, schema: CreatedApiKey },
  errors: ['conflict'],

  async handler({ caller, body, trx }, services) {
    const { accountId } = caller
    const { name, role = 'operator', tools = null } = body
    requireUnlimited(caller)
    requireRole(caller, role)
    const { limits = null, expiresAt = null } = await readTerms(services, accountId, body)
    const created = { accountId, name, role, tools, limits, expiresAt }
    const { row, key } = await apiKeyRepository.createApiKey(trx, created)
    await assertItemLimit(trx, services.config, { accountId, kind: 'API keys' })
    const subject = { kind: 'key', id: row.id }
    await audit(trx, { action: 'createKey', subject, accountId, after: keyFields(row), caller })
    return { ...presentApiKey(row), api_key: key }
  },
})
