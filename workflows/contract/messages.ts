import { defineQuery, defineSignal } from '@temporalio/workflow'

/** An order to the kill switch, with its author and its reason, which every rejected caller sees. */
export interface KillSwitchOrder {
  reason: string
  actor: string
  /** Set by a sender that has already written the row; the workflow then only reads it. */
  version?: number
}

/** The response of the kill switch workflow to the query `state`. */
export interface KillSwitchState {
  active: boolean
  reason: string | null
  actor: string | null
}

export const activateKillSwitch = defineSignal<[KillSwitchOrder]>('activate')
export const deactivateKillSwitch = defineSignal<[Partial<KillSwitchOrder>?]>('deactivate')
export const killSwitchState = defineQuery<KillSwitchState>('state')

/** Signals a job's workflow that a node has claimed the job, so that operators see where it runs. */
export interface JobClaimedNotice {
  nodeId: string
  attempt: number
}

export const jobClaimed = defineSignal<[JobClaimedNotice]>('claimed')

/** Reports to a job's workflow why no node can currently run the job, so that operators see the reason. */
export const jobWaiting = defineSignal<[{ reason: string | null }]>('waiting')

/** Signals a job's workflow that the run is paused, so that it withdraws an offer that no node has taken. */
export const jobPaused = defineSignal('paused')

/** Signals (or starts) a job's workflow when the run is resumed. A workflow that is about to end then continues. */
export const jobResumed = defineSignal('resumed')

/** Signals a waiting task that a node may have room, so that it is placed now instead of at the end of its pause. */
export const nodeHasRoom = defineSignal('node_has_room')

/** Makes the next attempt of a webhook delivery now, before it is due. */
export const retryDeliveryNow = defineSignal('retry_now')

/**
 * Signals a cohort's workflow that the stage with this name holds its slot, so that its consumers are called. The
 * second argument is true once the stage has its values, so that producers beyond its quorum are cancelled.
 */
export const stageStarted = defineSignal<[string, boolean?]>('stage_started')

/**
 * Signals a cohort's workflow that an attempt of a stage has taken too long. The third argument identifies the call by
 * its time in epoch milliseconds. A stage that was put back is called again under the same attempt number. The reason
 * is in the stage's row.
 */
export const stageOverdue = defineSignal<[string, number, number?]>('stage_overdue')
