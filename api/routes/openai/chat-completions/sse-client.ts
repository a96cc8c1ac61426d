import type { ServerResponse } from 'node:http'
import type { ApiError } from '../../../../domain/errors.ts'
import { ERROR_BODIES } from '../../../http/errors.ts'

const DONE = 'data: [DONE]\n\n'
/** Node fires a timer with a longer delay immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** The client's end of an event stream, as relays use it. */
export interface StreamClient extends Disposable {
  /** True once a status can no longer be chosen. */
  readonly hasHead: boolean
  keepAlive(): void
  stopKeepAlive(): void
  write(events: Buffer, onDrain: () => void): boolean
  end(options: { saidDone: boolean }): void
  fail(error: ApiError): void
}

/** Sends the events of model servers unchanged. The head is sent with the first byte. */
export class SseClient implements StreamClient {
  readonly #res: ServerResponse
  readonly #headers: Record<string, string>
  readonly #keepAliveMs: number
  #keepAlive: NodeJS.Timeout | undefined

  constructor(
    res: ServerResponse,
    { headers, keepAliveMs }: { headers: Record<string, string>; keepAliveMs: number },
  ) {
    this.#res = res
    this.#headers = headers
    this.#keepAliveMs = keepAliveMs
  }

  get hasHead(): boolean {
    return this.#res.headersSent
  }

  /** Sends comments at an interval until the first event, because proxies close silent connections. */
  keepAlive(): void {
    if (this.#keepAliveMs === 0) return
    this.#keepAlive ??= setInterval(
      () => this.#send(': keep-alive\n\n'),
      Math.min(this.#keepAliveMs, MAX_TIMER_MS),
    )
  }

  /** Stops the comments: while no model is loaded, an error status must stay possible. */
  stopKeepAlive(): void {
    clearInterval(this.#keepAlive)
    this.#keepAlive = undefined
  }

  /** Sends complete events. False means that the caller must wait for `onDrain`. */
  write(events: Buffer, onDrain: () => void): boolean {
    this.stopKeepAlive()
    if (this.#send(events)) return true
    this.#res.once('drain', onDrain)
    return false
  }

  /** Ends the stream, after sending `[DONE]` unless the server already sent it. */
  end({ saidDone }: { saidDone: boolean }): void {
    this.stopKeepAlive()
    if (!saidDone) this.#send(DONE)
    this.#res.end()
  }

  /** Ends the stream with an error event, which clients raise as an exception. */
  fail(error: ApiError): void {
    this.stopKeepAlive()
    this.#send(`data: ${JSON.stringify(ERROR_BODIES.openai(error))}\n\n`)
    this.end({ saidDone: false })
  }

  [Symbol.dispose](): void {
    this.stopKeepAlive()
  }

  #send(bytes: Buffer | string): boolean {
    const res = this.#res
    if (res.destroyed) return true
    if (!res.headersSent) res.writeHead(200, this.#headers)
    return res.write(bytes)
  }
}
