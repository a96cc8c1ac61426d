import type { ServerResponse } from 'node:http'
import { invalid } from '../../../../domain/errors.ts'
import { firstIdAt, isUuidV7, timeOfId } from '../../../../domain/uuid.ts'
import type { Watch } from '../../../gateway/background/watches.ts'
import { EventStreamWriter, KEY_ENDED } from '../../../http/event-stream.ts'
import type { Services } from '../../../services.ts'

/** Maximum events in memory per stream; a slow client gets the rest from the database. */
const MAX_EVENTS = 500
/**
 * Ids sort by creation time, but transactions commit in any order. Events up to this much older than the newest may
 * still appear after it.
 */
const MAX_COMMIT_DELAY_MS = 10_000
/**
 * Maximum events remembered within that time. Beyond this number, we forget the oldest and don't send events that
 * appear late.
 */
const MAX_REPORTED = 5_000
const RETRY_DELAY_MS = 2_000
/** A lost NOTIFY delays events by at most this time. */
const REREAD_INTERVAL_MS = 15_000
/** The stream ends after this time, so that a reconnecting client's key and access are checked again. */
const MAX_DURATION_MS = 60 * 60_000

interface Range {
  /** The lowest id to include. */
  from: string
  /** Ids to leave out. */
  except: readonly string[]
  limit: number
}

interface EventStreamOptions<T> {
  /** Lists events of every type, oldest first, so that each read continues where the previous one ended. */
  read: (range: Range) => Promise<T[]>
  /** The only type to send; all types when undefined. */
  type: string | undefined
  present: (event: T) => unknown
  /** The event after which the stream starts; it starts now when undefined. */
  after: string | undefined
  watch: Watch
  res: ServerResponse
  /** Aborts when the client disconnects. */
  signal: AbortSignal
  /** Aborts when the client's key is revoked or expires. */
  ended?: AbortSignal
}

/** Returns the event after which a stream starts. */
export function placeOf(
  query: { after?: string },
  headers: { 'last-event-id'?: string },
): string | undefined {
  // A reconnecting browser repeats the original URL and sends its position in the header.
  const last = headers['last-event-id']
  const eventId = last ?? query.after
  if (eventId === undefined || isUuidV7(eventId)) return eventId
  const loc = last === undefined ? ['query', 'after'] : ['header', 'Last-Event-ID']
  throw invalid(loc, 'must be the id of an event')
}

/**
 * Sends events as they arrive, until the client disconnects, its key is revoked or expires, an hour passes or the
 * gateway stops.
 */
export async function followEvents<T extends { id: string; type: string }>(
  { now, stopping, config }: Services,
  following: EventStreamOptions<T>,
): Promise<void> {
  const { type, present, after, watch, res, ended } = following
  const signal = AbortSignal.any([following.signal, stopping.signal, ...(ended ? [ended] : [])])
  const writer = new EventStreamWriter(res, signal)
  const until = performance.now() + MAX_DURATION_MS
  const quietMs = config.HEARTH_STREAM_KEEPALIVE_S * 1_000 || Number.POSITIVE_INFINITY
  const lateFrom = (time: number) => firstIdAt(new Date(time - MAX_COMMIT_DELAY_MS))
  const read = (from: string, seen: ReadonlySet<string>) =>
    following.read({ from, except: [...seen], limit: MAX_EVENTS })

  let position = after ?? firstIdAt(now())
  let from = lateFrom(timeOfId(position))
  const sent = new Set(after === undefined ? (await read(from, new Set())).map(({ id }) => id) : [after])
  await writer.open(RETRY_DELAY_MS, position)
  let spokenAt = performance.now()
  while (!signal.aborted && performance.now() < until) {
    const events = await read(from, sent)
    const wanted = type === undefined ? events : events.filter((event) => event.type === type)
    if (wanted.length > 0) {
      await writer.send(wanted.map((event) => ({ event: event.type, id: event.id, data: present(event) })))
      spokenAt = performance.now()
    }
    const newest = events.at(-1)
    if (newest) {
      position = later(position, newest.id)
      for (const { id } of events) sent.add(id)
      from = later(from, lateFrom(timeOfId(newest.id)))
      for (const id of sent) {
        if (sent.size > MAX_REPORTED) from = later(from, id)
        if (id < from || sent.size > MAX_REPORTED) sent.delete(id)
      }
    }
    const silentMs = quietMs - (performance.now() - spokenAt)
    if (silentMs <= 0) {
      await writer.comment('keep-alive', position)
      spokenAt = performance.now()
    } else if (!newest) await watch.next(Math.min(silentMs, REREAD_INTERVAL_MS), signal)
  }
  writer.end(ended?.aborted ? KEY_ENDED : undefined)
}

const later = (one: string, other: string): string => (one < other ? other : one)
