import Type from 'typebox'
import * as apiKeyRepository from '../../../../../db/repositories/platform/api-keys.ts'
import { ApiKey } from '../../../../../schemas/api-key.ts'
import { route } from '../../../../http/route.ts'
import { presentApiKey } from '../../../../keys/present.ts'

export const findApiKeys = route({
  operationId: 'findApiKeys',
  summary: 'Find keys in all accounts by their last four characters, newest first, at most 100',
  method: 'GET',
  path: '/admin/keys',
  auth: 'operations-key',
  query: Type.Object({
    hint: Type.String({ minLength: 4, maxLength: 4, description: 'The last four characters of the key' }),
  }),
  success: { status: 200, schema: Type.Object({ keys: Type.Array(ApiKey) }) },

  async handler({ query: { hint } }, { db }) {
    return { keys: (await apiKeyRepository.findKeysByHint(db, hint)).map(presentApiKey) }
  },
})
