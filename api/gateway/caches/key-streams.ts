import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import { outsideAccounts } from '../../../db/account-share.ts'
import type { CacheWatch } from '../../../db/cache-watch.ts'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import type { Database } from '../../../db/tables.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import type { AccountCaller } from '../../http/caller.ts'

const RETRY_DELAY_MS = 500
/** The maximum delay of a Node.js timer. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** A stream's access; `ended` aborts once its key is revoked or has expired. */
export interface StreamAccess extends Disposable {
  readonly ended: AbortSignal
}

interface WatchedStream {
  readonly end: AbortController
  timer: NodeJS.Timeout | undefined
}

type Caller = Pick<AccountCaller, 'keyId' | 'expiresAt'>

/**
 * Ends the streams of keys that are revoked or expire; they could otherwise last up to an hour longer. A request in
 * flight to a model is admitted work and may finish.
 */
export class KeyStreams implements Disposable {
  readonly #db: Kysely<Database>
  readonly #log: Logger
  readonly #watched = new Map<string, Set<WatchedStream>>()
  readonly #closing = new AbortController()
  /** The ids of keys to re-read. */
  readonly #stale = new Set<string>()
  #isReading = false

  constructor(db: Kysely<Database>, { watch, log }: { watch: Pick<CacheWatch, 'on'>; log: Logger }) {
    this.#db = db
    this.#log = log
    setMaxListeners(0, this.#closing.signal)
    watch.on('api_key', () => this.#refresh(this.#watched.keys()))
  }

  /**
   * Watches a stream's key until disposed. Call this before the request's first await. The key is read once more,
   * because it may have been revoked since the request was authenticated.
   */
  watch({ keyId, expiresAt }: Caller): StreamAccess {
    const watched: WatchedStream = { end: new AbortController(), timer: undefined }
    const ofKey = this.#watched.get(keyId) ?? new Set()
    this.#watched.set(keyId, ofKey.add(watched))
    expireAt(watched, expiresAt)
    this.#refresh([keyId])
    return {
      ended: watched.end.signal,
      [Symbol.dispose]: () => {
        clearTimeout(watched.timer)
        ofKey.delete(watched)
        if (ofKey.size === 0) this.#watched.delete(keyId)
      },
    }
  }

  [Symbol.dispose](): void {
    this.#closing.abort()
  }

  #refresh(ids: Iterable<string>): void {
    for (const id of ids) this.#stale.add(id)
    // All accounts share this read, so it must not use up the connections of the current request's account.
    if (this.#stale.size > 0 && !this.#isReading) outsideAccounts(() => void this.#read())
  }

  /** Reads the changed keys; repeats for changes that arrive during the read, and until the database responds. */
  async #read(): Promise<void> {
    this.#isReading = true
    while (this.#stale.size > 0 && !this.#closing.signal.aborted) {
      const ids = [...this.#stale]
      this.#stale.clear()
      try {
        const live = await apiKeyRepository.listExpiries(this.#db, ids)
        for (const id of ids) this.#apply(id, live)
      } catch (err) {
        emit(this.#log, 'keys.streams_unchecked', { err })
        for (const id of ids) this.#stale.add(id)
        await sleep(RETRY_DELAY_MS, undefined, { signal: this.#closing.signal }).catch(() => {})
      }
    }
    this.#isReading = false
  }

  #apply(id: string, live: ReadonlyMap<string, number | undefined>): void {
    for (const watched of this.#watched.get(id) ?? []) {
      if (live.has(id)) expireAt(watched, live.get(id))
      else watched.end.abort()
    }
  }
}

/** Schedules a stream's end, replacing an earlier schedule. */
function expireAt(watched: WatchedStream, time: number | undefined): void {
  clearTimeout(watched.timer)
  if (time === undefined) return
  const remainingMs = time - Date.now()
  if (remainingMs <= 0) return watched.end.abort()
  watched.timer = setTimeout(() => expireAt(watched, time), Math.min(remainingMs, MAX_TIMER_MS)).unref()
}
