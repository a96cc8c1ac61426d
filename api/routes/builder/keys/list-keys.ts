import Type from 'typebox'
import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import { ApiKey } from '../../../../schemas/api-key.ts'
import { route } from '../../../http/route.ts'
import { presentApiKey } from '../../../keys/present.ts'

export const listKeys = route({
  operationId: 'listKeys',
  summary: "List the account's API keys, newest first, without the keys themselves",
  method: 'GET',
  path: '/keys',
  auth: 'api-key',
  role: 'admin',
  success: { status: 200, schema: Type.Object({ keys: Type.Array(ApiKey) }) },

  async handler({ caller: { accountId } }, { db }) {
    return { keys: (await apiKeyRepository.listApiKeys(db, accountId)).map(presentApiKey) }
  },
})
