import type { ServerResponse } from 'node:http'

/**
 * Aborts when a client disconnects before its response is complete. An `AbortSignal` with its controller costs each
 * chat a kilobyte and a microsecond, so we create one only on demand.
 */
export class ClientDisconnect {
  readonly response: ServerResponse
  readonly #listeners: (() => void)[] = []
  #aborted: boolean
  #controller: AbortController | undefined

  constructor(res: ServerResponse) {
    this.response = res
    this.#aborted = res.destroyed && !res.writableFinished
    res.once('close', () => {
      if (!res.writableFinished) this.#abort()
    })
  }

  get aborted(): boolean {
    return this.#aborted
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Calls the listener once the response is sent or the client has disconnected. */
  whenOver(listener: () => void): void {
    if (this.response.closed) listener()
    else this.response.once('close', listener)
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort()
    }
    return this.#controller.signal
  }

  #abort(): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#controller?.abort()
    for (const listener of this.#listeners) listener()
  }
}
