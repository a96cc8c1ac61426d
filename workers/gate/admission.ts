import { type Metadata, ServerInterceptingCall, type ServerInterceptor, status } from '@grpc/grpc-js'
import type { OpenCalls } from './open-polls.ts'
import { Refusal } from './refusal.ts'

const POLL = '/PollActivityTaskQueue'

/**
 * Admits or refuses calls by their headers alone, before any message is read, so that unauthenticated callers use no
 * memory.
 */
export function admission(
  /** Returns the id of the calling node; throws a `Refusal`. */
  nodeOf: (metadata: Metadata) => string,
  calls: OpenCalls,
  isOpen: (path: string) => boolean,
): ServerInterceptor {
  return ({ path }, call) => {
    if (isOpen(path)) return new ServerInterceptingCall(call)
    const kind = path.endsWith(POLL) ? 'poll' : 'other'
    let admitted: string | undefined
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata(metadata, proceed) {
            try {
              const nodeId = nodeOf(metadata)
              if (!calls.begin(nodeId, kind)) {
                throw new Refusal(status.RESOURCE_EXHAUSTED, 'this node has too many calls in flight')
              }
              admitted = nodeId
              proceed(metadata)
            } catch (err) {
              if (!(err instanceof Refusal)) throw err
              call.sendStatus({ code: err.code, details: err.message })
            }
          },
          // Called once, when the call's stream closes for any reason.
          onCancel() {
            if (admitted !== undefined) calls.end(admitted, kind)
          },
        }),
    })
  }
}
