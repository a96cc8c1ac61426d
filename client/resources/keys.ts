import type { ApiKey, CreateApiKey, CreatedApiKey, UpdateApiKey } from '../../schemas/api-key.ts'
import type { Operations } from '../operations.ts'

type KeyId = [key_id: string]

/** The account's API keys. Creating or changing them requires an admin key without limits or expiry. */
export function keys(on: Operations) {
  return {
    list: on.call<[], { keys: ApiKey[] }>({ id: 'listKeys', method: 'GET', path: '/keys' }),
    /** Creates a key. Its text, `api_key`, is only in this response. */
    create: on.send<[], CreateApiKey, CreatedApiKey>({
      id: 'createKey',
      method: 'POST',
      path: '/keys',
      idempotent: true,
    }),
    update: on.send<KeyId, UpdateApiKey, ApiKey>({
      id: 'updateKey',
      method: 'PATCH',
      path: '/keys/{key_id}',
    }),
    revoke: on.call<KeyId, void>({ id: 'revokeKey', method: 'DELETE', path: '/keys/{key_id}' }),
  }
}
