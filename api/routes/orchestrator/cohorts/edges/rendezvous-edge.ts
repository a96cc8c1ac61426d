import { EdgeParams, EdgeRendezvous, EdgeRendezvousRequest } from '../../../../../schemas/cohorts/edge.ts'
import { route } from '../../../../http/route.ts'
import { hasMet, meet, met } from './rendezvous.ts'
import { atEdge } from './step.ts'
import { pollUntilChange } from './wait.ts'

/** How long to wait for the other side. */
const WAIT_TIMEOUT_MS = 10_000

export const rendezvousEdge = route({
  operationId: 'rendezvousEdge',
  summary: 'Find a connection between the producer and the consumer of an edge',
  method: 'POST',
  path: '/cohorts/{cohort_id}/edges/{edge_id}:rendezvous',
  auth: 'node-signature',
  params: EdgeParams,
  body: EdgeRendezvousRequest,
  success: { status: 200, schema: EdgeRendezvous },
  errors: ['not_found', 'conflict', 'validation_failed'],

  handler({ caller, params, body, signal }, services) {
    const { role, candidates, selected } = body
    // A node may poll for the other side's candidates repeatedly, but sends its own only once.
    const phase = candidates ? 'candidates' : selected === undefined ? undefined : 'selected'
    const call = {
      cohortId: params.cohort_id,
      edgeId: params.edge_id,
      nodeId: caller.nodeId,
      operation: 'rendezvous' as const,
      role,
      isLive: true,
      body,
      ...(phase !== undefined && { phase }),
    }
    // A call that sends candidates or a selection returns immediately; a poll waits for the other side.
    const waitMs = phase === undefined ? WAIT_TIMEOUT_MS : 0
    return pollUntilChange(services, { edgeId: params.edge_id, waitMs, signal }, () =>
      atEdge(services, call, async (step, isRepeat) => {
        if (!isRepeat) await meet(step, body, services)
        return { answer: await met(step, body, services), isNews: hasMet(step) }
      }),
    )
  },
})
