import type { EdgeCaller } from '../../../node-runtime/cohorts/edge-end.ts'
import { waitForCapacity } from '../../../node-runtime/cohorts/payload-capacity.ts'
import type { CompletePayload } from '../../../node-runtime/cohorts/payload-publisher.ts'
import type { ModelUse } from '../../../node-runtime/models/manager.ts'
import type { StageClaim } from '../../../schemas/cohorts/stage.ts'
import type { NodeDeps } from '../deps.ts'
import type { ClaimLease } from '../models/call-model.ts'
import type { StageSteps } from './stage-steps.ts'

/** A loaded model that is running a stage. */
export interface StageWork {
  deps: NodeDeps
  claim: StageClaim
  held: ClaimLease
  steps: StageSteps
  server: ModelUse['server']
  signal: AbortSignal
}

/** Returns the client and identity with which a stage calls the platform about its hand-overs. */
export const callerOf = ({ deps, claim, held }: StageWork): EdgeCaller => ({
  control: deps.control,
  cohortId: claim.cohort_id,
  leaseToken: held.leaseToken,
  turn: claim.turn,
})

/** Stores one payload for every consuming stage. */
export async function publishPayload(work: StageWork, produced: CompletePayload): Promise<void> {
  const { deps, claim, signal } = work
  for (const edge of claim.outgoing) await deps.keepers.keep(callerOf(work), edge, produced, signal)
}

/** Waits until this node has room for a payload of this size, and reports the wait. */
export const waitForPayloadSpace = ({ deps, steps, signal }: StageWork, bytes: number): Promise<boolean> =>
  waitForCapacity(bytes, {
    store: deps.edges.store,
    tell: (isWaiting) => steps.waitForRoom(isWaiting),
    signal,
  })
