import { Listener } from '../../../db/listener.ts'
import { EDGE_CHANNEL } from '../../../db/repositories/cohorts/edges.ts'
import { STAGE } from '../../../db/repositories/cohorts/stage-leases.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import type { NodeLinks } from '../links/node-links.ts'
import { type Watch, Watches } from './watches.ts'

/**
 * Wakes requests that are waiting for changes to a cohort's edge. Also notifies nodes as soon as a closed edge no
 * longer needs their payload, or a stage no longer needs their work. A NOTIFY may be lost, so requests also re-read the
 * edge from time to time, and nodes keep polling.
 */
export class EdgeWaiters implements AsyncDisposable {
  readonly #watches = new Watches()
  readonly #listener: Listener

  constructor(url: string, log: Logger, links: Pick<NodeLinks, 'cancelOn'>) {
    this.#listener = new Listener(url, {
      channel: EDGE_CHANNEL,
      onNotify: (text) => {
        const words = text.split(' ')
        const isOfStage = words[0] === STAGE
        const [id = '', attempt, nodeId] = isOfStage ? words.slice(1) : words
        if (nodeId === undefined) this.#watches.wake(id)
        else if (isOfStage) links.cancelOn(nodeId, { task_id: id, attempt: Number(attempt) })
        else links.cancelOn(nodeId, { edge: { edge_id: id, attempt: Number(attempt) } })
      },
      onGap: () => this.#watches.wakeAll(),
      onError: (err) => emit(log, 'cohort.edge_notify_lost', { err }),
    })
  }

  /** True once the gateway is stopping; requests then no longer wait. */
  get isClosing(): boolean {
    return this.#watches.isClosed
  }

  start(): Promise<void> {
    return this.#listener.start()
  }

  /** Watches an edge from now on, so a caller misses no change between reading the edge and waiting. */
  watch(edgeId: string): Watch {
    return this.#watches.watch(edgeId)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watches.close()
    await this.#listener[Symbol.asyncDispose]()
  }
}
