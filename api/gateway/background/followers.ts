import { Listener } from '../../../db/listener.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import type { StreamSlots } from '../../http/connections/stream-slots.ts'
import { type Watch, Watches } from './watches.ts'

interface FollowerOptions {
  /** The NOTIFY channel; its payload is the id of the changed subject. */
  channel: string
  /** Counts the open streams of all kinds. */
  slots: StreamSlots
}

/** A pseudo subject that changes whenever any subject changes. */
export const ALL = 'all'

/** Wakes the streams of one kind. A NOTIFY may be lost, so streams also poll from time to time. */
export class Followers implements AsyncDisposable {
  readonly #followed: FollowerOptions
  readonly #watches = new Watches()
  readonly #listener: Listener

  constructor(url: string, log: Logger, followed: FollowerOptions) {
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

  /** The number of open streams. */
  get size(): number {
    return this.#watches.size
  }

  start(): Promise<void> {
    return this.#listener.start()
  }

  /**
   * Watches a subject until disposed, for an account's or an operator's stream; throws `rate_limited` if too many
   * streams are open.
   */
  follow(follower: string, id: string): Watch {
    const slot = this.#followed.slots.take(follower)
    const watch = this.#watches.watch(id)
    return {
      next: (timeoutMs, signal) => watch.next(timeoutMs, signal),
      [Symbol.dispose]: () => {
        watch[Symbol.dispose]()
        slot[Symbol.dispose]()
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watches.close()
    await this.#listener[Symbol.asyncDispose]()
  }
}
