/** Who a route lets in. */
export type Auth =
  | 'none'
  | 'api-key'
  | 'operations-key'
  | 'cohort'
  | 'node-signature'
  | 'evaluator-token'
  | 'join-token'

export type Role = 'viewer' | 'operator' | 'admin'

/** The key behind a request, and its account. */
export interface AccountCaller {
  readonly accountId: string
  readonly keyId: string
  readonly role: Role
}

/** The node that signed a request. */
export interface NodeCaller {
  readonly nodeId: string
  readonly accountId: string
}

/** An account named by `X-Account-ID` on a cohort route. */
interface CohortCaller {
  readonly accountId: string
  readonly userId: string | undefined
}

/** A one-time join token as sent, in `Authorization: Bearer`; the handler spends it in its own transaction. */
interface JoinCaller {
  readonly token: string
}

interface CallerByAuth {
  none: undefined
  'api-key': AccountCaller
  'operations-key': undefined
  cohort: CohortCaller
  'node-signature': NodeCaller
  'evaluator-token': undefined
  'join-token': JoinCaller
}
export type CallerOf<A extends Auth> = CallerByAuth[A]
export type AnyCaller = CallerByAuth[Auth]
