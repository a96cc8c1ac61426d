import assert from 'node:assert/strict'
import { newId } from '../../domain/ids.ts'
import { EVALUATOR_TOKEN, OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'
import { type Credential, CREDENTIALS } from './credentials.ts'
import { SERVED, type ServedRoute } from './routes.ts'

const ROLES = ['viewer', 'operator', 'admin'] as const
type CredentialKind =
  | 'nothing'
  | 'unknown key'
  | (typeof ROLES)[number]
  | 'operations key'
  | 'evaluator token'
type Verdict = 'in' | 401 | 403 | 422

/** Returns the expected outcome when a route that requires `needed` is called with `sent`. */
function verdict(needed: Credential, sent: CredentialKind): Verdict {
  if (needed === 'none' || needed === 'signed-url') return 'in'
  if (needed === 'operations-key') return sent === 'operations key' ? 'in' : 401
  if (needed === 'evaluator-token') return sent === 'evaluator token' ? 'in' : 401
  // The request lacks signature headers, which is a validation error (4.9).
  if (needed === 'node-signature') return 422
  // Any bearer token may be a join token; the route itself rejects invalid ones.
  if (needed === 'join-token') return sent === 'nothing' || sent === 'evaluator token' ? 401 : 'in'

  const role = ROLES.find((name) => name === sent)
  if (!role) return 401
  if (needed === 'cohort') return 'in'
  if (needed === 'cohort-operator') return role === 'viewer' ? 403 : 'in'
  return ROLES.indexOf(role) >= ROLES.indexOf(needed) ? 'in' : 403
}

describe('route credentials', () => {
  let api: TestApi
  const headers = new Map<CredentialKind, Record<string, string>>()
  before(async () => {
    // The suite calls every route several times without a valid credential, all from one address.
    const env = { HEARTH_FEATURES: 'webhooks', HEARTH_MEMORY: '1', HEARTH_ADDRESS_RATE: '10000' }
    api = await startApi({ env })
    const { accountId } = await api.account()
    headers.set('nothing', {})
    headers.set('unknown key', { 'x-api-key': 'hk_unknown' })
    for (const role of ROLES) headers.set(role, { 'x-api-key': await api.key(accountId, role) })
    headers.set('operations key', { 'x-api-key': OPERATIONS_KEY })
    headers.set('evaluator token', { 'x-cohort-evaluator-token': EVALUATOR_TOKEN })
  })
  after(() => api[Symbol.asyncDispose]())

  it('are listed for every served route and for no other', () => {
    const served = SERVED.map(({ route }) => route.operationId)

    assert.deepEqual(served.toSorted(), Object.keys(CREDENTIALS).toSorted())
  })

  for (const served of SERVED) {
    const { operationId, method } = served.route
    it(`are enforced: ${operationId} (${method} ${served.path}) accepts only the required one`, async () => {
      const needed = CREDENTIALS[operationId]
      assert.ok(needed, 'CREDENTIALS has no entry for this operation')

      for (const [sent, sentHeaders] of headers) {
        const { status, body, text } = await api.call(method, concrete(served), bodyFor(served, sentHeaders))
        const expected = verdict(needed, sent)
        if (expected === 'in') assert.ok(!isRefusal(served, status), `${sent}: ${status} ${text}`)
        else assert.equal(status, expected, `${sent}: ${status} ${text}`)
        if (status >= 400) assert.equal(typeof body.error.message, 'string')
        assert.notEqual(status, 500, `${sent}: ${text}`)
      }
    })
  }
})

/**
 * Returns whether a status is a credential refusal. Routes that check a join token or a signed URL themselves may also
 * refuse.
 */
function isRefusal({ route }: ServedRoute, status: number): boolean {
  const needed = CREDENTIALS[route.operationId]
  if (needed === 'join-token' || needed === 'signed-url') return false
  return status === 401 || status === 403
}

/** Returns the path with ids that don't exist. A stream gets an invalid query, because it would never end otherwise. */
const concrete = ({ path, route }: ServedRoute): string =>
  path.replaceAll(/\{\w+\}/g, () => newId()) +
  (route.success.contentType === 'text/event-stream' ? '?after=x' : '')

/** Returns a body that every route can parse and no route accepts. */
function bodyFor({ route }: ServedRoute, headers: Record<string, string>) {
  if (!route.body) return { headers }
  return { headers: { 'content-type': 'application/json', ...headers }, raw: '{}' }
}
