import type { ToolFilter } from '../../domain/tools/filter.ts'
import type { KeyLimits } from '../../schemas/api-key.ts'

/** The kinds of credential that a route can require. */
export type Auth =
  | 'none'
  | 'api-key'
  | 'operations-key'
  | 'cohort'
  | 'node-signature'
  | 'evaluator-token'
  | 'join-token'

export type Role = 'viewer' | 'operator' | 'admin'

/** The account of a request's API key. */
export interface AccountCaller {
  readonly accountId: string
  readonly keyId: string
  readonly role: Role
  /** Limits on its requests to models; absent if there are none. */
  readonly limits?: KeyLimits
  /** When the key expires, in milliseconds since 1970; absent if never. */
  readonly expiresAt?: number
  /** The tools that the key is limited to; absent if the key isn't limited. */
  readonly tools?: ToolFilter
}

/** The node that signed a request. */
export interface NodeCaller {
  readonly nodeId: string
  readonly accountId: string
}

/** The account named in `X-Account-ID` on a cohort route. */
interface CohortCaller {
  readonly accountId: string
  readonly keyId: string
  /** The key has its own limits. */
  readonly isLimited: boolean
  readonly userId: string | undefined
}

/** A one-time join token in `Authorization: Bearer`; the handler redeems it in its own transaction. */
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
