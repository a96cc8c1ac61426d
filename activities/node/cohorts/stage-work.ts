import type { EdgeCaller } from '../../../node-runtime/cohorts/edge-end.ts'
import type { Produced } from '../../../node-runtime/cohorts/payload-keepers.ts'
import { waitForRoom } from '../../../node-runtime/cohorts/room.ts'
import type { ModelUse } from '../../../node-runtime/models/manager.ts'
import type { StageClaim } from '../../../schemas/cohorts/stage.ts'
import type { NodeDeps } from '../deps.ts'
import type { Held } from '../models/ask-model.ts'
import type { StageSteps } from './stage-steps.ts'

/** A loaded model at work on a stage. */
export interface StageWork {
  deps: NodeDeps
  claim: StageClaim
  held: Held
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
export async function keepPayload(work: StageWork, produced: Produced): Promise<void> {
  const { deps, claim, signal } = work
  for (const edge of claim.outgoing) await deps.keepers.keep(callerOf(work), edge, produced, signal)
}

/** Waits until this node has room for a payload of this size, and reports the wait. */
export const roomFor = ({ deps, steps, signal }: StageWork, bytes: number): Promise<boolean> =>
  waitForRoom(bytes, {
    store: deps.edges.store,
    tell: (isWaiting) => steps.waitForRoom(isWaiting),
    signal,
  })
