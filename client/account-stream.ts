import type { FeedEvent } from '../schemas/event.ts'
import { HearthError } from './errors.ts'
import { eventsOf } from './event-stream.ts'
import type { DescribedMethod } from './operations.ts'
import { pause } from './pause.ts'
import type { CallOptions, Operation, Transport } from './transport.ts'

export interface EventStreamOptions {
  /** The id of the event after which the stream starts; by default it starts now. */
  after?: string
  /** Limits the stream to events of this type. */
  type?: string
}

const STREAM: Operation = { id: 'streamEvents', method: 'GET', path: '/events/stream' }
const RECONNECT_DELAY_MS = 2_000
/** A reopened stream repeats the last seconds; we remember this many ids to skip events already yielded. */
const REMEMBERED = 5_000

type Stream = DescribedMethod &
  ((query?: EventStreamOptions, options?: CallOptions) => AsyncGenerator<FeedEvent, void>)

/**
 * Follows the account's events until the caller stops. If the connection ends, reopens the stream at the same position.
 */
export function accountStream(transport: Transport): Stream {
  async function* follow(
    { after, type }: EventStreamOptions = {},
    options: CallOptions = {},
  ): AsyncGenerator<FeedEvent, void> {
    const { signal } = options
    const yielded = new Set<string>()
    let cursor = after
    for (;;) {
      const response = await transport.open(STREAM, { ids: [], query: { after: cursor, type }, options })
      try {
        if (response.body) {
          for await (const { id, data } of eventsOf(response.body, (resumeAt) => (cursor = resumeAt))) {
            cursor = id
            if (yielded.has(id)) continue
            yielded.add(id)
            for (const oldest of yielded) {
              if (yielded.size <= REMEMBERED) break
              yielded.delete(oldest)
            }
            yield data as FeedEvent
          }
        }
      } catch (err) {
        signal?.throwIfAborted()
        if (err instanceof HearthError) throw err
      }
      await pause(RECONNECT_DELAY_MS, signal)
    }
  }
  return Object.assign(follow, { operation: STREAM })
}
