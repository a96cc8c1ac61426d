import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import pTimeout from 'p-timeout'
import * as dispatchRepository from '../../db/repositories/nodes/dispatches.ts'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import { subjectOf } from '../../workflows/contract/policy.ts'
import { emit } from './events.ts'
import type { Upstream } from './upstream.ts'
import { Message } from './wire.ts'

/** Field numbers of `PollActivityTaskQueueResponse`. */
const ANSWER = { taskToken: 1, workflowExecution: 4 } as const
const EXECUTION = { workflowId: 1 } as const

/** Shorter than the heartbeat timeout of 10 s, after which the activity is lost anyway. */
const RECORD_TIMEOUT_MS = 5_000
const RETRY_DELAY_MS = 200

/** A poll response with work, before the node gets it. */
export interface Dispatch {
  nodeId: string
  answer: Message
  /** Returns whether the node is still waiting for the work and may have it. */
  isWanted: () => boolean
}

export class DispatchRecorder {
  readonly #db: Kysely<Database>
  readonly #upstream: Upstream
  readonly #log: Logger

  constructor({ db, upstream, log }: { db: Kysely<Database>; upstream: Upstream; log: Logger }) {
    this.#db = db
    this.#upstream = upstream
    this.#log = log
  }

  /**
   * Records the hand-over of this work before the node gets it. If this can't be recorded, or the node no longer wants
   * the work, fails the attempt in Temporal right away, without waiting for its timeout, and returns false. Temporal
   * counted the attempt as started when it answered the poll, so there is no other way to return it. If Temporal is
   * unreachable too, the attempt ends at its heartbeat timeout.
   */
  async record({ nodeId, answer, isWanted }: Dispatch): Promise<boolean> {
    const workflowId = new Message(answer.bytes(ANSWER.workflowExecution)).text(EXECUTION.workflowId)
    const subject = subjectOf(workflowId)
    if (!subject || (isWanted() && (await this.#insert({ ...subject, nodeId }, isWanted)))) {
      if (isWanted()) return true
    }
    emit(this.#log, 'hand_over.refused', { node_id: nodeId, workflow_id: workflowId })
    await this.#upstream
      .failTask(answer.bytes(ANSWER.taskToken), 'the work was not handed to a node')
      .catch((err: unknown) => emit(this.#log, 'hand_over.return_failed', { err, workflow_id: workflowId }))
    return false
  }

  async #insert(
    dispatch: Parameters<typeof dispatchRepository.recordDispatch>[1],
    isWanted: () => boolean,
  ): Promise<boolean> {
    const deadline = performance.now() + RECORD_TIMEOUT_MS
    for (;;) {
      try {
        const remainingMs = Math.max(1, deadline - performance.now())
        const recorded = dispatchRepository.recordDispatch(this.#db, dispatch)
        await pTimeout(recorded, { milliseconds: remainingMs, message: 'the database is not responding' })
        return true
      } catch (err) {
        emit(this.#log, 'hand_over.record_failed', { err, node_id: dispatch.nodeId })
        if (performance.now() > deadline || !isWanted()) return false
        await sleep(RETRY_DELAY_MS)
      }
    }
  }
}
