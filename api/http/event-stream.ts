import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { ErrorCode } from '../../schemas/errors.ts'

export const EVENT_STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** The last event of a stream whose key may no longer read it. */
export const KEY_ENDED = {
  code: 'unauthenticated',
  message: "this stream's API key was revoked or has expired",
} as const

interface ServerEvent {
  event: string
  id: string
  data: unknown
}

/** Writes server-sent events with back-pressure: each call resolves once the client can accept more. */
export class EventStreamWriter {
  readonly #res: ServerResponse
  readonly #signal: AbortSignal

  /** @param signal ends the wait for a client that doesn't read. */
  constructor(res: ServerResponse, signal: AbortSignal) {
    this.#res = res
    this.#signal = signal
  }

  /**
   * Sends the head and the delay after which a disconnected client reconnects.
   * @param eventId resume point for a client that has not received any event.
   */
  open(retryMs: number, eventId?: string): Promise<void> {
    this.#res.writeHead(200, EVENT_STREAM_HEADERS)
    return this.#write(`retry: ${retryMs}\n${idOf(eventId)}\n`)
  }

  send(events: readonly ServerEvent[]): Promise<void> {
    return this.#write(events.map(textOf).join(''))
  }

  /** @param eventId resume point to send as the SSE id instead of the last event's. */
  comment(text: string, eventId?: string): Promise<void> {
    return this.#write(`: ${text}\n${idOf(eventId)}\n`)
  }

  /** Sends the last event, without an id: a client that reconnects continues after the event before it. */
  end(error?: { code: ErrorCode; message: string }): void {
    if (error && !this.#res.destroyed) this.#res.write(`event: error\ndata: ${JSON.stringify(error)}\n\n`)
    this.#res.end()
  }

  async #write(text: string): Promise<void> {
    if (this.#signal.aborted || this.#res.write(text)) return
    await once(this.#res, 'drain', { signal: this.#signal }).catch((err: unknown) => {
      if (!this.#signal.aborted) throw err
    })
  }
}

const idOf = (eventId: string | undefined): string => (eventId === undefined ? '' : `id: ${eventId}\n`)

/** JSON has no line breaks, so one data line is enough. */
const textOf = ({ event, id, data }: ServerEvent): string =>
  `event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`
