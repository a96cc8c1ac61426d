import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { backoff } from '../platform/async/retry.ts'

const RESPONSE_TIMEOUT_MS = 5_000
const CLOSE_TIMEOUT_MS = 1_000
const RETRY_DELAY_MS = { first: 100, longest: 2_000 }

/** The channel of a listener, and its callbacks. */
export interface ListenerOptions {
  channel: string
  onNotify: (payload: string) => void
  /**
   * Called whenever the listener begins to receive. Notifications sent before that, or while it was disconnected, are
   * lost, so the caller must read the data itself.
   */
  onGap: () => void
  /** Called when the listener could not connect; it will retry. */
  onError: (err: unknown) => void
  /** The timeout for connecting, and for each response. */
  answerMs?: number
}

/**
 * Receives one NOTIFY channel on its own connection, and reconnects whenever that breaks. A connection may also break
 * unnoticed, so callers that must not miss a change also poll from time to time.
 */
export class Listener implements AsyncDisposable {
  readonly #url: string
  readonly #hearing: ListenerOptions
  readonly #closing = new AbortController()
  #client: pg.Client | undefined
  #running: Promise<void> | undefined

  constructor(url: string, hearing: ListenerOptions) {
    this.#url = url
    this.#hearing = hearing
  }

  /** Resolves once the listener is receiving, or after its first attempt to connect has failed. */
  start(): Promise<void> {
    const { promise: tried, resolve } = Promise.withResolvers<void>()
    this.#running = this.#run(resolve)
    return tried
  }

  async #run(tried: () => void): Promise<void> {
    const { signal } = this.#closing
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        const lost = Promise.withResolvers<void>()
        await this.#connect(lost.resolve)
        failures = 0
        this.#hearing.onGap()
        tried()
        await lost.promise
      } catch (err) {
        if (!signal.aborted) this.#hearing.onError(err)
        tried()
      }
      await sleep(backoff(failures, RETRY_DELAY_MS), undefined, { signal, ref: false }).catch(() => {})
    }
  }

  async #connect(onLost: () => void): Promise<void> {
    const { channel, onNotify, answerMs = RESPONSE_TIMEOUT_MS } = this.#hearing
    const client = new pg.Client({
      connectionString: this.#url,
      keepAlive: true,
      connectionTimeoutMillis: answerMs,
      query_timeout: answerMs,
    })
    this.#client = client
    client.on('error', onLost).on('end', onLost)
    client.on('notification', ({ payload }) => onNotify(payload ?? ''))
    try {
      await client.connect()
      await client.query(`listen ${channel}`)
    } catch (err) {
      await client.end().catch(() => {})
      throw err
    }
  }

  /** Stops listening, without waiting for a server that does not respond. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    const ended = Promise.all([this.#client?.end().catch(() => {}), this.#running])
    await Promise.race([ended, sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
  }
}
