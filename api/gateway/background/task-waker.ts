import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { Kysely } from 'kysely'
import { outsideAccounts } from '../../../db/account-share.ts'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as waitingTaskRepository from '../../../db/repositories/tasks/waiting.ts'
import type { Database } from '../../../db/tables.ts'
import { planWakeUps } from '../../../domain/placement/wake-ups.ts'
import type { Logger } from '../../../platform/log.ts'
import { nodeHasRoom } from '../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { emit } from '../../events.ts'

export interface TaskWakerOptions {
  db: Kysely<Database>
  temporal: Client
  log: Logger
}

/** The maximum number of tasks that one pass wakes. */
const MAX_WOKEN = 256
const AT_ONCE = 16
const RPC_TIMEOUT_MS = 3_000
/**
 * The pause between two passes; all triggers during it count as one. The pause is `times` times as long as the last
 * pass, limited to the range from `least` to `most`.
 */
const IDLE_DELAY_MS = { least: 200, times: 20, most: 2_000 }
/** The pause after a pass that woke tasks or found another gateway's pass running, before we look at the new state. */
const RETRY_DELAY_MS = 500

/**
 * Signals waiting tasks when nodes have room for them, longest wait first. Runs whenever nodes report changes. A task
 * that gets no signal retries its placement when its own pause ends.
 */
export class TaskWaker implements AsyncDisposable {
  readonly #options: TaskWakerOptions
  readonly #closing = new AbortController()
  #running: Promise<void> | undefined
  #isNews = false

  constructor(options: TaskWakerOptions) {
    this.#options = options
  }

  /** Triggers a pass after nodes have reported changes. Never throws. */
  poke(): void {
    if (this.#closing.signal.aborted) return
    this.#isNews = true
    this.#running ??= outsideAccounts(() => this.#run()).finally(() => (this.#running = undefined))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    while (this.#isNews && !signal.aborted) {
      this.#isNews = false
      const began = performance.now()
      const isUnsettled = await this.#wakeAll().catch((err: unknown) => {
        emit(this.#options.log, 'task.wake_failed', { err })
        return false
      })
      const rest = Math.min(
        IDLE_DELAY_MS.most,
        Math.max(IDLE_DELAY_MS.least, IDLE_DELAY_MS.times * (performance.now() - began)),
      )
      await sleep(isUnsettled ? Math.max(rest, RETRY_DELAY_MS) : rest, undefined, { signal }).catch(() => {})
      if (isUnsettled) this.#isNews = true
    }
  }

  /** Wakes the tasks that nodes have room for; returns whether another pass should follow soon. */
  async #wakeAll(): Promise<boolean> {
    const { db, log } = this.#options
    if (!(await waitingTaskRepository.hasUnplaced(db))) return false
    const ids = await db.transaction().execute(async (trx) => {
      if (!(await waitingTaskRepository.lockWaking(trx))) return undefined
      const waiting = await waitingTaskRepository.listWaitingModels(trx)
      const held = await waitingTaskRepository.listHeldModels(trx)
      const snapshots = await nodeLoadRepository.readSnapshots(trx)
      const now = new Date()
      const plan = planWakeUps({ waiting, held, snapshots, most: MAX_WOKEN, now, random: Math.random })
      const chosen: string[] = []
      for (const waking of plan) chosen.push(...(await waitingTaskRepository.takeWaking(trx, waking)))
      return chosen
    })
    if (ids === undefined) return true
    if (ids.length === 0) return false
    await this.#tell(ids)
    emit(log, 'task.woken', { tasks: ids.length })
    return true
  }

  async #tell(ids: readonly string[]): Promise<void> {
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      await Promise.all(ids.slice(at, at + AT_ONCE).map((id) => this.#tellOne(id)))
    }
  }

  async #tellOne(id: string): Promise<void> {
    const { temporal, log } = this.#options
    try {
      await temporal.withDeadline(Date.now() + RPC_TIMEOUT_MS, () =>
        temporal.workflow.getHandle(WORKFLOW_ID.task(id)).signal(nodeHasRoom),
      )
    } catch (err) {
      // The workflow has ended, or hasn't started yet and will place the task itself.
      if (err instanceof WorkflowNotFoundError) return
      emit(log, 'task.wake_signal_failed', { err, task_id: id })
    }
  }
}
