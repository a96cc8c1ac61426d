import type { ServerResponse } from 'node:http'
import { invalid } from '../../../../domain/errors.ts'
import { firstIdAt, isUuidV7, timeOfId } from '../../../../domain/uuid.ts'
import type { Watch } from '../../../gateway/background/watches.ts'
import { EventStreamWriter, KEY_ENDED } from '../../../http/event-stream.ts'
import type { Services } from '../../../services.ts'

/** A stream holds at most so many events at once; a client that reads slowly gets the rest from the rows. */
const MAX_EVENTS = 500
/**
 * Ids sort by the time of their making, and transactions commit in any order: events that are this much older than the
 * newest may still appear behind it.
 */
const LATE_MS = 10_000
/** Of more events within that time the oldest are forgotten, and those that appear even later are not told. */
const MAX_REPORTED = 5_000
const RETRY_DELAY_MS = 2_000
/** A NOTIFY that was lost delays news by at most this time. */
const REREAD_INTERVAL_MS = 15_000
/** A client comes back after this time, so that its key and its access are checked again. */
const MAX_DURATION_MS = 60 * 60_000

interface Range {
  /** The least id. */
  from: string
  /** Ids that are left out. */
  except: readonly string[]
  limit: number
}

interface Following<T> {
  /** Lists events of every type, oldest first, so that each read goes on behind all that the last one looked at. */
  read: (range: Range) => Promise<T[]>
  /** The only type that is told; all when undefined. */
  type: string | undefined
  present: (event: T) => unknown
  /** The event behind which the stream begins; now when undefined. */
  after: string | undefined
  watch: Watch
  res: ServerResponse
  /** Aborts when the client leaves. */
  signal: AbortSignal
  /** Aborts when its key is revoked or expires. */
  ended?: AbortSignal
}

/** Returns the event behind which a stream begins. */
export function placeOf(
  query: { after?: string },
  headers: { 'last-event-id'?: string },
): string | undefined {
  // A browser that comes back repeats the first address, and says in the header how far it came.
  const last = headers['last-event-id']
  const place = last ?? query.after
  if (place === undefined || isUuidV7(place)) return place
  const loc = last === undefined ? ['query', 'after'] : ['header', 'Last-Event-ID']
  throw invalid(loc, 'must be the id of an event')
}

/** Sends events as they come, until the client leaves, its key ends, an hour is over or the gateway stops. */
export async function followEvents<T extends { id: string; type: string }>(
  { now, stopping, config }: Services,
  following: Following<T>,
): Promise<void> {
  const { type, present, after, watch, res, ended } = following
  const signal = AbortSignal.any([following.signal, stopping.signal, ...(ended ? [ended] : [])])
  const writer = new EventStreamWriter(res, signal)
  const until = performance.now() + MAX_DURATION_MS
  const quietMs = config.HEARTH_STREAM_KEEPALIVE_S * 1_000 || Number.POSITIVE_INFINITY
  const lateFrom = (time: number) => firstIdAt(new Date(time - LATE_MS))
  const read = (from: string, seen: ReadonlySet<string>) =>
    following.read({ from, except: [...seen], limit: MAX_EVENTS })

  let place = after ?? firstIdAt(now())
  let from = lateFrom(timeOfId(place))
  const told = new Set(after === undefined ? (await read(from, new Set())).map(({ id }) => id) : [after])
  await writer.open(RETRY_DELAY_MS, place)
  let spokenAt = performance.now()
  while (!signal.aborted && performance.now() < until) {
    const events = await read(from, told)
    const wanted = type === undefined ? events : events.filter((event) => event.type === type)
    if (wanted.length > 0) {
      await writer.send(wanted.map((event) => ({ event: event.type, id: event.id, data: present(event) })))
      spokenAt = performance.now()
    }
    const newest = events.at(-1)
    if (newest) {
      place = later(place, newest.id)
      for (const { id } of events) told.add(id)
      from = later(from, lateFrom(timeOfId(newest.id)))
      for (const id of told) {
        if (told.size > MAX_REPORTED) from = later(from, id)
        if (id < from || told.size > MAX_REPORTED) told.delete(id)
      }
    }
    const silentMs = quietMs - (performance.now() - spokenAt)
    if (silentMs <= 0) {
      await writer.comment('keep-alive', place)
      spokenAt = performance.now()
    } else if (!newest) await watch.next(Math.min(silentMs, REREAD_INTERVAL_MS), signal)
  }
  writer.end(ended?.aborted ? KEY_ENDED : undefined)
}

const later = (one: string, other: string): string => (one < other ? other : one)
