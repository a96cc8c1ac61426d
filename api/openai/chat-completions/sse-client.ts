import type { ServerResponse } from 'node:http'
import type { ApiError } from '../../../domain/errors.ts'
import { ERROR_BODIES } from '../../http/errors.ts'

/** Between load and first token; proxies close what is silent for longer. */
const KEEP_ALIVE_MS = 15_000
const DONE = 'data: [DONE]\n\n'

/** The client's end of a stream of events. Its head goes out with its first byte. */
export class SseClient implements Disposable {
  readonly #res: ServerResponse
  readonly #headers: Record<string, string>
  #keepAlive: NodeJS.Timeout | undefined

  constructor(res: ServerResponse, headers: Record<string, string>) {
    this.#res = res
    this.#headers = headers
  }

  get hasHead(): boolean {
    return this.#res.headersSent
  }

  /** Sends a comment from time to time until the first event. */
  keepAlive(): void {
    this.#keepAlive ??= setInterval(() => this.#send(': keep-alive\n\n'), KEEP_ALIVE_MS)
  }

  /** Sends whole events. False asks to wait for `onDrain`. */
  write(events: Buffer, onDrain: () => void): boolean {
    this[Symbol.dispose]()
    if (this.#send(events)) return true
    this.#res.once('drain', onDrain)
    return false
  }

  /** Ends the stream; `[DONE]` is its last event, whoever says it. */
  end({ saidDone }: { saidDone: boolean }): void {
    this[Symbol.dispose]()
    if (!saidDone) this.#send(DONE)
    this.#res.end()
  }

  /** Ends the stream with an error that clients raise. */
  fail(error: ApiError): void {
    this[Symbol.dispose]()
    this.#send(`data: ${JSON.stringify(ERROR_BODIES.openai(error))}\n\n`)
    this.end({ saidDone: false })
  }

  [Symbol.dispose](): void {
    clearInterval(this.#keepAlive)
  }

  #send(bytes: Buffer | string): boolean {
    const res = this.#res
    if (res.destroyed) return true
    if (!res.headersSent) res.writeHead(200, this.#headers)
    return res.write(bytes)
  }
}
