import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { ApiError, invalid } from '../../domain/errors.ts'
import type { SignedRequest } from '../gateway/links/node-authenticator.ts'
import type { Services } from '../services.ts'
import type { AccountCaller, AnyCaller, Auth, Role } from './caller.ts'
import type { UnauthenticatedRequests } from './connections/unauthenticated-requests.ts'
import type { RequestContext } from './request-context.ts'
import type { AnyRoute } from './route.ts'

/** Returns the caller, or throws if the credential is missing or invalid. */
export type Authenticate = (context: RequestContext) => AnyCaller | Promise<AnyCaller>

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 }

/** Returns the role that a route requires: viewers read, operators create and infer, admins also delete. */
export function roleOf({ role, method }: Pick<AnyRoute, 'role' | 'method'>): Role {
  if (role) return role
  if (method === 'GET') return 'viewer'
  return method === 'DELETE' ? 'admin' : 'operator'
}

/** A route's requirements for the caller's key. */
interface KeyNeeds {
  role: Role
  isForLimitedKeys: boolean
}

const needsOf = (route: AnyRoute): KeyNeeds => ({
  role: roleOf(route),
  isForLimitedKeys: route.forLimitedKeys === true,
})

/** Returns the credential check for a route's declaration; built once, when the route is mounted. */
export function authenticator(
  route: AnyRoute,
  services: Services,
  unauthenticated: UnauthenticatedRequests,
): Authenticate {
  const byAuth: Record<Auth, Authenticate> = {
    none: (context) => {
      context.owner = route.grant?.(context, services)
      return undefined
    },
    'api-key': accountAuth(services, unauthenticated, needsOf(route)),
    'operations-key': ({ req }) =>
      checkSecret(
        credentialOf(req, 'the operations key'),
        services.config.HEARTH_OPERATIONS_KEY,
        'operations key',
      ),
    'evaluator-token': ({ req }) => checkEvaluator(req, services.config.HEARTH_EVALUATOR_TOKEN),
    'join-token': ({ req }) => ({ token: credentialOf(req, 'a join token') }),
    'node-signature': (context) => verifyNode(context, services),
    cohort: cohortAuth(services, unauthenticated, needsOf(route)),
  }
  return byAuth[route.auth]
}

const accountAuth =
  (services: Services, unauthenticated: UnauthenticatedRequests, needs: KeyNeeds): Authenticate =>
  (context) => {
    const key = credentialOf(context.req)
    const found = services.keys.find(key)
    if (typeof found !== 'function') return admit(context, found, needs)
    unauthenticated.check(context.req)
    return found().then((caller) => admit(context, caller, needs))
  }

function admit({ req }: RequestContext, caller: AccountCaller | undefined, needs: KeyNeeds): AccountCaller {
  if (!caller) throw unauthenticated('this API key is not valid')
  if (caller.expiresAt !== undefined && caller.expiresAt <= Date.now())
    throw unauthenticated(`this API key expired at ${new Date(caller.expiresAt).toISOString()}`)
  const account = req.headers['x-account-id']
  if (account !== undefined && String(account).toLowerCase() !== caller.accountId) {
    throw new ApiError('account_mismatch', 'X-Account-ID is not the account of this API key')
  }
  requireRole(caller, needs.role)
  if (caller.tools && !needs.isForLimitedKeys) {
    const message =
      'this key is limited to certain tools and may not call this route; GET /api/builder/v1/mcp/manifest lists the endpoints and operations among them, and tools/list on /mcp lists all of them'
    throw new ApiError('forbidden', message)
  }
  return caller
}

/** Throws a 403 unless the caller's key has at least this role. */
export function requireRole({ role }: AccountCaller, least: Role): void {
  if (RANK[role] >= RANK[least]) return
  throw new ApiError('forbidden', `this requires a key with the role ${least}; yours has the role ${role}`, {
    details: { required_role: least, role },
  })
}

/** Cohort requests name their account in a header; the key proves that the caller may act for it. */
const cohortAuth =
  (services: Services, unauthenticated: UnauthenticatedRequests, needs: KeyNeeds): Authenticate =>
  async (context) => {
    const caller = (await accountAuth(services, unauthenticated, needs)(context)) as AccountCaller
    const { req } = context
    if (req.headers['x-account-id'] === undefined) throw missingHeader('x-account-id')
    const isLimited = caller.limits !== undefined
    return {
      accountId: caller.accountId,
      keyId: caller.keyId,
      isLimited,
      userId: req.headers['x-user-id']?.toString(),
    }
  }

/** The signature covers the body, which has been read at this point. */
const verifyNode = ({ req, rawBody }: RequestContext, { nodes }: Services): Promise<AnyCaller> =>
  nodes.verify({ ...signedHead(req), body: rawBody })

/**
 * Checks the signed headers of a node's request before its body is read, and sets the account to charge for the
 * body's memory.
 */
export async function checkNodeHead(context: RequestContext, { nodes }: Services): Promise<void> {
  const { accountId } = await nodes.checkHead(signedHead(context.req))
  context.owner = accountId
}

function signedHead(req: IncomingMessage): Omit<SignedRequest, 'body'> {
  const timestamp = required(req, 'x-node-timestamp')
  if (!/^\d{1,16}$/.test(timestamp))
    throw invalid(['header', 'x-node-timestamp'], 'must be a time in milliseconds since 1970')
  const digest = req.headers['x-node-body-sha256']
  return {
    method: req.method ?? '',
    path: req.url ?? '',
    timestamp: Number(timestamp),
    accountId: required(req, 'x-account-id'),
    nodeId: required(req, 'x-node-id'),
    signature: required(req, 'x-node-signature'),
    bodySha256: typeof digest === 'string' ? digest : undefined,
  }
}

/** Returns the key in `X-API-Key` or `Authorization: Bearer`; a request may send both if they are equal. */
function credentialOf({ headers }: IncomingMessage, what = 'an API key'): string {
  const key = headers['x-api-key']
  const { authorization } = headers
  const bearer = authorization === undefined ? undefined : bearerOf(authorization)
  if (key !== undefined && bearer !== undefined && key !== bearer) {
    throw unauthenticated('X-API-Key and Authorization contain different keys')
  }
  const credential = key ?? bearer
  if (typeof credential !== 'string' || credential === '') {
    throw unauthenticated(`${what} is required, in X-API-Key or as Authorization: Bearer`)
  }
  return credential
}

function bearerOf(authorization: string): string {
  const space = authorization.indexOf(' ')
  const scheme = space === -1 ? authorization : authorization.slice(0, space)
  if (scheme.toLowerCase() !== 'bearer') throw unauthenticated('Authorization must be a Bearer token')
  return space === -1 ? '' : authorization.slice(space + 1).trim()
}

/** Compares secrets in constant time; an empty expected secret rejects every request. */
function checkEvaluator(req: IncomingMessage, expected: string): undefined {
  const given = req.headers['x-cohort-evaluator-token']
  if (typeof given !== 'string' || given === '')
    throw unauthenticated('the header x-cohort-evaluator-token is required')
  if (expected === '') throw unauthenticated('HEARTH_EVALUATOR_TOKEN is not set on this platform')
  return checkSecret(given, expected, 'evaluator token')
}

function checkSecret(given: string, expected: string, what: string): undefined {
  const digest = (text: string): Buffer => hash('sha256', text, 'buffer')
  if (expected !== '' && timingSafeEqual(digest(given), digest(expected))) return undefined
  throw unauthenticated(`this ${what} is not valid`)
}

const missingHeader = (name: string): ApiError =>
  new ApiError('validation_failed', `header.${name}: Field required`, {
    details: { issues: [{ loc: ['header', name], msg: 'Field required', type: 'missing' }] },
  })

function required(req: IncomingMessage, name: string): string {
  const value = req.headers[name]
  if (typeof value !== 'string' || value === '') throw missingHeader(name)
  return value
}

const unauthenticated = (message: string): ApiError =>
  new ApiError('unauthenticated', message, { headers: { 'www-authenticate': 'Bearer realm="hearth"' } })
