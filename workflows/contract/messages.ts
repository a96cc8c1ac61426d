import { defineQuery, defineSignal } from '@temporalio/workflow'

/** Who switched, and why; shown to every caller that is refused. */
export interface KillSwitchOrder {
  reason: string
  actor: string
  /** Set by whoever has written the row already: the workflow then only reads it again. */
  version?: number
}

/** What the kill switch workflow answers to `state`. */
export interface KillSwitchState {
  active: boolean
  reason: string | null
  actor: string | null
}

export const activateKillSwitch = defineSignal<[KillSwitchOrder]>('activate')
export const deactivateKillSwitch = defineSignal<[Partial<KillSwitchOrder>?]>('deactivate')
export const killSwitchState = defineQuery<KillSwitchState>('state')

/** A node has taken a job: told to its workflow so that operators see where it runs. */
export interface JobClaimedNotice {
  nodeId: string
  attempt: number
}

export const jobClaimed = defineSignal<[JobClaimedNotice]>('claimed')

/** Why no node can take a job now: told to its workflow for operators to see. */
export const jobWaiting = defineSignal<[{ reason: string | null }]>('waiting')

/** A node may have room for a task that waits: it is placed now instead of when its pause ends. */
export const nodeHasRoom = defineSignal('node_has_room')

/** Makes the next attempt of a webhook delivery now instead of when it is due. */
export const retryDeliveryNow = defineSignal('retry_now')
