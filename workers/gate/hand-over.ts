import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import pTimeout from 'p-timeout'
import { recordDispatch } from '../../db/repositories/nodes/dispatches.ts'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import { subjectOf } from '../../workflows/contract/policy.ts'
import { emit } from './events.ts'
import type { Upstream } from './upstream.ts'
import { Message } from './wire.ts'

/** Fields of `PollActivityTaskQueueResponse`. */
const ANSWER = { taskToken: 1, workflowExecution: 4 } as const
const EXECUTION = { workflowId: 1 } as const

/** Within the 10 s after which an activity that gives no sign of life is lost anyway. */
const RECORD_WITHIN_MS = 5_000
const AGAIN_MS = 200

/** An answer to a poll with work in it, before the node has seen it. */
export interface HandOver {
  nodeId: string
  answer: Message
  /** Whether the node still waits for it, and may have it. */
  isWanted: () => boolean
}

export class HandOvers {
  readonly #db: Kysely<Database>
  readonly #upstream: Upstream
  readonly #log: Logger

  constructor({ db, upstream, log }: { db: Kysely<Database>; upstream: Upstream; log: Logger }) {
    this.#db = db
    this.#upstream = upstream
    this.#log = log
  }

  /**
   * Records that the node is handed this work, before it hears of it. What cannot be recorded, or is not wanted any more, is
   * given back to Temporal as a failed attempt, at once rather than when its time is up; false then. Temporal had counted it
   * as begun when the poll was answered, so there is no other way back. Should Temporal not hear that either, the attempt
   * ends when no heartbeat comes.
   */
  async record({ nodeId, answer, isWanted }: HandOver): Promise<boolean> {
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

  async #insert(dispatch: Parameters<typeof recordDispatch>[1], isWanted: () => boolean): Promise<boolean> {
    const deadline = performance.now() + RECORD_WITHIN_MS
    for (;;) {
      try {
        const left = Math.max(1, deadline - performance.now())
        const recorded = recordDispatch(this.#db, dispatch)
        await pTimeout(recorded, { milliseconds: left, message: 'the database does not answer' })
        return true
      } catch (err) {
        emit(this.#log, 'hand_over.record_failed', { err, node_id: dispatch.nodeId })
        if (performance.now() > deadline || !isWanted()) return false
        await sleep(AGAIN_MS)
      }
    }
  }
}
