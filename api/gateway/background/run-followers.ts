import { Listener } from '../../../db/listener.ts'
import { RUN_CHANNEL } from '../../../db/repositories/training/feed.ts'
import { temporaryError } from '../../../domain/errors.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import { type Watch, Watches } from './watches.ts'

/** Each stream reads on its own whenever its run has news. */
const MOST_PER_ACCOUNT = 64
const RETRY_AFTER_S = 5

/** Wakes the streams of training runs. A NOTIFY may be lost, so streams read again from time to time. */
export class RunFollowers implements AsyncDisposable {
  readonly #watches = new Watches()
  readonly #open = new Map<string, number>()
  readonly #listener: Listener

  constructor(url: string, log: Logger) {
    this.#listener = new Listener(url, {
      channel: RUN_CHANNEL,
      onNotify: (runId) => this.#watches.wake(runId),
      onGap: () => this.#watches.wakeAll(),
      onError: (err) => emit(log, 'job.news_notify_lost', { err }),
    })
  }

  /** The number of streams that are open. */
  get size(): number {
    return this.#open.values().reduce((sum, count) => sum + count, 0)
  }

  start(): Promise<void> {
    return this.#listener.start()
  }

  /** Watches a run for a stream of this account, until disposed; throws `rate_limited` when the account has too many. */
  follow(accountId: string, runId: string): Watch {
    const open = this.#open.get(accountId) ?? 0
    if (open >= MOST_PER_ACCOUNT) {
      const why = `this account follows ${MOST_PER_ACCOUNT} runs at this gateway already; end one of the streams`
      throw temporaryError('rate_limited', why, RETRY_AFTER_S)
    }
    this.#open.set(accountId, open + 1)
    const watch = this.#watches.watch(runId)
    return {
      next: (timeoutMs, signal) => watch.next(timeoutMs, signal),
      [Symbol.dispose]: () => {
        watch[Symbol.dispose]()
        const left = (this.#open.get(accountId) ?? 1) - 1
        if (left === 0) this.#open.delete(accountId)
        else this.#open.set(accountId, left)
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watches.close()
    await this.#listener[Symbol.asyncDispose]()
  }
}
