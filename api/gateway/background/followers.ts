import { Listener } from '../../../db/listener.ts'
import { temporaryError } from '../../../domain/errors.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import { type Watch, Watches } from './watches.ts'

const RETRY_AFTER_S = 5

interface Followed {
  /** The channel on which the id of a subject is notified when there is news of it. */
  channel: string
  /** The name of what is followed, in the plural. */
  what: string
  /** Each stream reads on its own whenever its subject has news. */
  mostPerFollower: number
}

/** The subject that has news whenever any other has. */
export const ALL = 'all'

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
      onNotify: (id) => {
        this.#watches.wake(id)
        this.#watches.wake(ALL)
      },
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

  /** Watches a subject for a stream of an account, or of the operators, until disposed; throws `rate_limited` when it has too many. */
  follow(follower: string, id: string): Watch {
    const { mostPerFollower, what } = this.#followed
    const open = this.#open.get(follower) ?? 0
    if (open >= mostPerFollower) {
      const why = `no more than ${mostPerFollower} ${what} are followed at a gateway; end one of the streams`
      throw temporaryError('rate_limited', why, RETRY_AFTER_S)
    }
    this.#open.set(follower, open + 1)
    const watch = this.#watches.watch(id)
    return {
      next: (timeoutMs, signal) => watch.next(timeoutMs, signal),
      [Symbol.dispose]: () => {
        watch[Symbol.dispose]()
        const left = (this.#open.get(follower) ?? 1) - 1
        if (left === 0) this.#open.delete(follower)
        else this.#open.set(follower, left)
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watches.close()
    await this.#listener[Symbol.asyncDispose]()
  }
}
