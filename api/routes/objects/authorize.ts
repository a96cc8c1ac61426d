import type { IncomingMessage } from 'node:http'
import { ApiError } from '../../../domain/errors.ts'
import { accountOfKey } from '../../../domain/object-keys.ts'
import { isLocalStore } from '../../../platform/object-store/local.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'

/** Returns what a signed URL allows; throws a 404 when the platform stores its objects elsewhere. */
export function authorize(
  store: ObjectStore,
  method: 'GET' | 'PUT',
  key: string,
  { url = '' }: IncomingMessage,
) {
  if (!isLocalStore(store)) throw new ApiError('not_found', 'objects are not stored here')
  const query = new URLSearchParams(url.includes('?') ? url.slice(url.indexOf('?') + 1) : '')
  return { store, grant: store.authorize({ method, key, query }) }
}

/** Returns the account whose object a signed URL is for; throws like `authorize`. */
export function grantedTo(
  store: ObjectStore,
  method: 'GET' | 'PUT',
  params: unknown,
  req: IncomingMessage,
): string {
  const { key } = params as { key: string }
  authorize(store, method, key, req)
  return accountOfKey(key)
}
