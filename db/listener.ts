import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { backoff } from '../platform/async/retry.ts'

const ANSWER_MS = 5_000
const CLOSE_MS = 1_000
const AGAIN_MS = { first: 100, longest: 2_000 }

/** What a listener does with what it hears. */
export interface Hearing {
  channel: string
  onNotify: (payload: string) => void
  /** It hears from now on: what was announced before, at first or while it had no connection, is to be read. */
  onGap: () => void
  /** It could not connect, and will try again. */
  onError: (err: unknown) => void
  /** How long the server may take for the connection, and for each answer on it. */
  answerMs?: number
}

/**
 * Hears one channel of NOTIFY on a connection of its own and connects again whenever that breaks. A connection may also
 * die unnoticed: whoever must not miss anything looks for itself from time to time.
 */
export class Listener implements AsyncDisposable {
  readonly #url: string
  readonly #hearing: Hearing
  readonly #closing = new AbortController()
  #client: pg.Client | undefined
  #running: Promise<void> | undefined

  constructor(url: string, hearing: Hearing) {
    this.#url = url
    this.#hearing = hearing
  }

  /** Resolves once it hears, or has failed to connect for the first time. */
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
      await sleep(backoff(failures, AGAIN_MS), undefined, { signal, ref: false }).catch(() => {})
    }
  }

  async #connect(onLost: () => void): Promise<void> {
    const { channel, onNotify, answerMs = ANSWER_MS } = this.#hearing
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

  /** A server that does not answer is not waited for. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    const ended = Promise.all([this.#client?.end().catch(() => {}), this.#running])
    await Promise.race([ended, sleep(CLOSE_MS, undefined, { ref: false })])
  }
}
