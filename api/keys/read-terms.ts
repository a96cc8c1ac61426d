import { accessTo } from '../../domain/endpoint.ts'
import { type Issue, invalidFor } from '../../domain/errors.ts'
import type { KeyLimits } from '../../schemas/api-key.ts'
import type { Services } from '../services.ts'

/** A key's expiry and limits; `undefined` for fields that the request doesn't set. */
export interface KeyTerms {
  expiresAt: Date | null | undefined
  limits: KeyLimits | null | undefined
}

/** Reads a key's terms; throws a 422 for an expiry in the past and for models that the account may not call. */
export async function readTerms(
  { endpoints, now }: Pick<Services, 'endpoints' | 'now'>,
  accountId: string,
  { expires_at, limits }: { expires_at?: string | null; limits?: KeyLimits | null },
): Promise<KeyTerms> {
  const expiresAt = typeof expires_at === 'string' ? new Date(expires_at) : expires_at
  const issues: Issue[] = []
  if (expiresAt && expiresAt <= now())
    issues.push({ loc: ['body', 'expires_at'], msg: 'must be in the future', type: 'value_error' })
  for (const [i, model] of (limits?.models ?? []).entries()) {
    const endpoint = await endpoints.find(model)
    if (endpoint && accessTo(endpoint, accountId) !== 'none') continue
    const msg = `there is no endpoint "${model}" that the account may call`
    issues.push({ loc: ['body', 'limits', 'models', i], msg, type: 'value_error' })
  }
  if (issues.length > 0) throw invalidFor(issues)
  // An empty object means no limits.
  return { expiresAt, limits: limits && Object.keys(limits).length === 0 ? null : limits }
}
