import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { ErrorCode } from '../../schemas/errors.ts'

export const EVENT_STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** The last event of a stream whose key may not read it any longer. */
export const KEY_ENDED = {
  code: 'unauthenticated',
  message: 'the API key of this stream was revoked or has expired',
} as const

interface ServerEvent {
  event: string
  id: string
  data: unknown
}

/** Writes server-sent events, and no more than the client takes: each call resolves once there is room again. */
export class EventStreamWriter {
  readonly #res: ServerResponse
  readonly #signal: AbortSignal

  /** @param signal ends the wait for a client that does not read. */
  constructor(res: ServerResponse, signal: AbortSignal) {
    this.#res = res
    this.#signal = signal
  }

  /**
   * Sends the head, the time after which a client that lost its connection comes back, and the place from which it then
   * goes on if it has heard of no event.
   */
  open(retryMs: number, place?: string): Promise<void> {
    this.#res.writeHead(200, EVENT_STREAM_HEADERS)
    return this.#write(`retry: ${retryMs}\n${idOf(place)}\n`)
  }

  send(events: readonly ServerEvent[]): Promise<void> {
    return this.#write(events.map(textOf).join(''))
  }

  /** @param place replaces the last event that was told as that from which the client goes on. */
  comment(text: string, place?: string): Promise<void> {
    return this.#write(`: ${text}\n${idOf(place)}\n`)
  }

  /** Sends the last event, which has no place: a client that comes back continues behind the one before. */
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

const idOf = (place: string | undefined): string => (place === undefined ? '' : `id: ${place}\n`)

/** JSON has no line breaks, so one line of data holds it. */
const textOf = ({ event, id, data }: ServerEvent): string =>
  `event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`
