import { setTimeout as sleep } from 'node:timers/promises'
import { IllegalStateError, type NativeConnection, Worker } from '@temporalio/worker'
import type { NodeActivities } from '../../activities/node/index.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from './events.ts'

export interface ActivityQueuesOptions {
  connection: NativeConnection
  namespace: string
  activities: NodeActivities
  /** How long work may continue after its queue was closed, before it is cancelled. */
  graceMs: number
  log: Logger
}

export interface QueueSize {
  /** The number of concurrent activities. */
  slots: number
  /** The number of open polls. The SDK's default is ten, which the gate cannot admit for every model of a node. */
  pollers: number
}

const RETRY_DELAY_MS = 1_000

/** The task queues that this node polls, each with a small worker, opened and closed as models load and unload. */
export class ActivityQueues implements AsyncDisposable {
  readonly #options: ActivityQueuesOptions
  readonly #open = new Map<string, Worker>()
  /** The workers of all queues, including closing ones, with promises that resolve when they end. */
  readonly #workers = new Map<Worker, Promise<void>>()
  #connection: NativeConnection
  #wanted = new Map<string, QueueSize>()
  #settling: Promise<void> | undefined
  #isDisposed = false

  constructor(options: ActivityQueuesOptions) {
    this.#options = options
    this.#connection = options.connection
  }

  /**
   * Switches polls to another connection. Running work continues, and its results use the new connection. Resolves once
   * no worker holds the previous connection: a worker that is just ending keeps it for a moment.
   */
  async moveTo(connection: NativeConnection): Promise<void> {
    this.#connection = connection
    const unmovedWorkers = [...this.#workers].filter(([worker]) => !moveWorker(worker, connection))
    await Promise.all(unmovedWorkers.map(([, ended]) => ended))
  }

  /** Sets the queues to poll; work from a closed queue continues. */
  want(queues: ReadonlyMap<string, QueueSize>): void {
    if (this.#isDisposed) return
    this.#wanted = new Map(queues)
    this.#settling ??= this.#settle()
  }

  /** The queues that are polled now. */
  get polled(): string[] {
    return [...this.#open.keys()].toSorted()
  }

  /** Resolves once the polled queues equal the wanted ones. */
  async settled(): Promise<void> {
    await this.#settling
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.want(new Map())
    this.#isDisposed = true
    await this.#settling
    await Promise.all(this.#workers.values())
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
        await sleep(RETRY_DELAY_MS)
      })
    }
    // This must run in the same tick as the last check, so that every later change settles again.
    this.#settling = undefined
  }

  async #poll(queue: string, { slots, pollers }: QueueSize): Promise<void> {
    const { namespace, activities, graceMs, log } = this.#options
    const connection = this.#connection
    // A worker that fails to start stays in memory, so check the server first.
    await connection.workflowService.describeNamespace({ namespace })
    const worker = await Worker.create({
      connection,
      namespace,
      taskQueue: queue,
      activities,
      maxConcurrentActivityTaskExecutions: slots,
      maxConcurrentActivityTaskPolls: Math.min(pollers, slots),
      // With the default throttle, an activity gets its cancellation 6 to 9 s late.
      maxHeartbeatThrottleInterval: '500ms',
      defaultHeartbeatThrottleInterval: '500ms',
      shutdownGraceTime: graceMs,
      shutdownForceTime: graceMs + 1_000,
    })
    // The connection may have changed in the meantime.
    moveWorker(worker, this.#connection)
    const ended = worker
      .run()
      .catch((err: unknown) => {
        // The SDK also throws when work from a closed queue does not end in time; Temporal then gives it to another
        // node.
        const isClosed = this.#open.get(queue) !== worker
        if (isClosed) emit(log, 'queue.close_forced', { err, queue })
        else {
          emit(log, 'queue.poll_ended', { err, queue })
          this.#open.delete(queue)
          setTimeout(() => this.want(this.#wanted), RETRY_DELAY_MS)
        }
      })
      .finally(() => this.#workers.delete(worker))
    this.#workers.set(worker, ended)
    this.#open.set(queue, worker)
  }

  #close(queue: string): void {
    const worker = this.#open.get(queue)
    if (!worker) return
    this.#open.delete(queue)
    if (worker.getState() === 'RUNNING') worker.shutdown()
  }
}

/** Switches a worker to another connection; returns false if the worker has just ended and needs no connection. */
function moveWorker(worker: Worker, connection: NativeConnection): boolean {
  try {
    worker.connection = connection
    return true
  } catch (err) {
    if (err instanceof IllegalStateError) return false
    throw err
  }
}
