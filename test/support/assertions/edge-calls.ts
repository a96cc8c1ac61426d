import type { AnyBody } from '../servers/api.ts'
import type { TestNode } from '../servers/nodes/node.ts'

/** A node's call to the platform about a hand-over. */
export interface EdgeCall {
  verb: 'negotiate' | 'rendezvous' | 'transfer' | 'session' | 'consume'
  place: { cohortId: string; edgeId: string }
  body: { role?: 'producer' | 'consumer'; phase?: string; [member: string]: unknown }
  /** Repeats the call with changed members in its body. */
  send(body?: object): Promise<AnyBody>
}

/** Runs a callback before each of a node's hand-over calls, until disposed; the call waits for the callback. */
export function beforeEdgeCalls(
  { parts: { control } }: TestNode,
  act: (call: EdgeCall) => Promise<void> | void,
): Disposable {
  const edge = control.edge.bind(control)
  const own = (async (verb: EdgeCall['verb'], place: EdgeCall['place'], body: object, options) => {
    const call: EdgeCall = {
      verb,
      place: { ...place },
      body: { ...body },
      send: (other = {}) => edge(verb, place, { ...body, ...other }, { signal: AbortSignal.timeout(10_000) }),
    }
    await act(call)
    return edge(call.verb, call.place, call.body, options)
  }) as typeof control.edge
  control.edge = own
  return {
    [Symbol.dispose]() {
      if (control.edge === own) control.edge = edge
    },
  }
}
