import type { Invocation, InvokeBody } from '../../schemas/action.ts'
import type { AccountCaller } from '../http/caller.ts'
import type { AnyRequest } from '../http/route.ts'

/** A request to invoke an action. */
export interface InvokeRequest {
  readonly slug: string
  /** The client's request; a disconnect cancels the work of a synchronous call. */
  readonly request: AnyRequest & { readonly caller: AccountCaller }
  readonly body: InvokeBody
  /** The JSON text of `body` as the client sent it. */
  readonly rawBody: Buffer
  readonly surface: 'action' | 'mcp'
  readonly idempotencyKey?: string | undefined
}

export interface InvokeResult {
  invocation: Invocation
  /** True if an earlier request with the same key created the invocation. */
  isReplay: boolean
}
