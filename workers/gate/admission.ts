import { type Metadata, ServerInterceptingCall, type ServerInterceptor, status } from '@grpc/grpc-js'
import type { OpenCalls } from './open-polls.ts'
import { Refusal } from './refusal.ts'

/** Decides on calls by their headers alone, before anything of their messages is read: strangers fill no memory here. */
export function admission(
  /** The node that a call comes from; throws a `Refusal`. */
  nodeOf: (metadata: Metadata) => string,
  calls: OpenCalls,
  isOpen: (path: string) => boolean,
): ServerInterceptor {
  return ({ path }, call) => {
    if (isOpen(path)) return new ServerInterceptingCall(call)
    let admitted: string | undefined
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata(metadata, proceed) {
            try {
              const nodeId = nodeOf(metadata)
              if (!calls.begin(nodeId)) {
                throw new Refusal(status.RESOURCE_EXHAUSTED, 'this node has too many calls under way')
              }
              admitted = nodeId
              proceed(metadata)
            } catch (err) {
              if (!(err instanceof Refusal)) throw err
              call.sendStatus({ code: err.code, details: err.message })
            }
          },
          // It comes once, when the call's stream is closed for whatever reason.
          onCancel() {
            if (admitted !== undefined) calls.end(admitted)
          },
        }),
    })
  }
}
