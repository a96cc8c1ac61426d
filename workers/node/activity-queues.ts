import { setTimeout as sleep } from 'node:timers/promises'
import { type NativeConnection, Worker } from '@temporalio/worker'
import type { NodeActivities } from '../../activities/node/index.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from './events.ts'

export interface ActivityQueuesOptions {
  connection: NativeConnection
  namespace: string
  activities: NodeActivities
  /** How long work may go on after its queue was closed, before it is cancelled. */
  graceMs: number
  log: Logger
}

interface Open {
  worker: Worker
  ended: Promise<void>
}

const RETRY_MS = 1_000

/** The task queues that this node polls: opened and closed as models come and go, by one small worker each. */
export class ActivityQueues implements AsyncDisposable {
  readonly #options: ActivityQueuesOptions
  readonly #open = new Map<string, Open>()
  readonly #closing = new Set<Promise<void>>()
  #wanted = new Map<string, number>()
  #settling: Promise<void> | undefined
  #isDisposed = false

  constructor(options: ActivityQueuesOptions) {
    this.#options = options
  }

  /** Says which queues are to be polled, with how many activities at once; what is at work on a closed one goes on. */
  want(queues: ReadonlyMap<string, number>): void {
    if (this.#isDisposed) return
    this.#wanted = new Map(queues)
    this.#settling ??= this.#settle()
  }

  /** The queues polled now. */
  get polled(): string[] {
    return [...this.#open.keys()].toSorted()
  }

  /** Resolves once what is polled is what was last wanted. */
  async settled(): Promise<void> {
    await this.#settling
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.want(new Map())
    this.#isDisposed = true
    await this.#settling
    await Promise.all(this.#closing)
  }

  async #settle(): Promise<void> {
    await Promise.resolve()
    for (;;) {
      const surplus = [...this.#open.keys()].find((queue) => !this.#wanted.has(queue))
      if (surplus !== undefined) {
        this.#close(surplus)
        continue
      }
      const missing = [...this.#wanted].find(([queue]) => !this.#open.has(queue))
      if (!missing) break
      await this.#poll(...missing).catch(async (err: unknown) => {
        emit(this.#options.log, 'queue.poll_failed', { err, queue: missing[0] })
        await sleep(RETRY_MS)
      })
    }
    // In the same turn as the last look: what is wanted from here on settles anew.
    this.#settling = undefined
  }

  async #poll(queue: string, slots: number): Promise<void> {
    const { connection, namespace, activities, graceMs, log } = this.#options
    // A worker that cannot be created keeps its queue until it is garbage: whether the server answers is asked before.
    await connection.workflowService.describeNamespace({ namespace })
    const worker = await Worker.create({
      connection,
      namespace,
      taskQueue: queue,
      activities,
      maxConcurrentActivityTaskExecutions: slots,
      // With the default throttle a cancelled activity learns of it 6 to 9 s late (measured).
      maxHeartbeatThrottleInterval: '500ms',
      defaultHeartbeatThrottleInterval: '500ms',
      shutdownGraceTime: graceMs,
      shutdownForceTime: graceMs + 1_000,
    })
    const ended = worker.run().then(
      () => {},
      (err: unknown) => {
        emit(log, 'queue.poll_ended', { err, queue })
        if (this.#open.get(queue)?.worker === worker) {
          this.#open.delete(queue)
          setTimeout(() => this.want(this.#wanted), RETRY_MS)
        }
      },
    )
    this.#open.set(queue, { worker, ended })
  }

  #close(queue: string): void {
    const open = this.#open.get(queue)
    if (!open) return
    this.#open.delete(queue)
    if (open.worker.getState() === 'RUNNING') open.worker.shutdown()
    const ended = open.ended.finally(() => this.#closing.delete(ended))
    this.#closing.add(ended)
  }
}
