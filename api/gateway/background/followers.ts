import { Listener } from '../../../db/listener.ts'
import { temporaryError } from '../../../domain/errors.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import { type Watch, Watches } from './watches.ts'

const RETRY_AFTER_S = 5

interface Followed {
  /** The channel on which the id of a subject is notified when there is news of it. */
  channel: string
  /** The name of the streams of an account's events, in the plural. */
  what: string
  /** Each stream reads on its own whenever its subject has news. */
  mostPerAccount: number
}

/** Wakes the streams of one kind. A NOTIFY may be lost, so streams read again from time to time. */
export class Followers implements AsyncDisposable {
  readonly #followed: Followed
  readonly #watches = new Watches()
  readonly #open = new Map<string, number>()
  readonly #listener: Listener

  constructor(url: string, log: Logger, followed: Followed) {
    this.#followed = followed
    const { channel } = followed
    this.#listener = new Listener(url, {
      channel,
      onNotify: (id) => this.#watches.wake(id),
      onGap: () => this.#watches.wakeAll(),
      onError: (err) => emit(log, 'stream.notify_lost', { err, channel }),
    })
  }

  /** The number of streams that are open. */
  get size(): number {
    return this.#open.values().reduce((sum, count) => sum + count, 0)
  }

  start(): Promise<void> {
    return this.#listener.start()
  }

  /** Watches a subject for a stream of this account, until disposed; throws `rate_limited` when the account has too many. */
  follow(accountId: string, id: string): Watch {
    const { mostPerAccount, what } = this.#followed
    const open = this.#open.get(accountId) ?? 0
    if (open >= mostPerAccount) {
      const why = `this account follows ${mostPerAccount} ${what} at this gateway already; end one of the streams`
      throw temporaryError('rate_limited', why, RETRY_AFTER_S)
    }
    this.#open.set(accountId, open + 1)
    const watch = this.#watches.watch(id)
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
