import { isNews } from '../../../../../domain/cohorts/edges/directive.ts'
import { EdgeNegotiated, EdgeNegotiateRequest, EdgeParams } from '../../../../../schemas/cohort-edge.ts'
import { route } from '../../../../http/route.ts'
import { negotiate, negotiated } from './negotiation.ts'
import { atEdge, standingOf } from './step.ts'

/** A NOTIFY that was lost delays news by at most this time. */
const READ_AGAIN_MS = 2_000

export const negotiateEdge = route({
  operationId: 'negotiateEdge',
  summary: 'Offer to give or take the payload of an edge, and wait for the other side',
  method: 'POST',
  path: '/cohorts/{cohort_id}/edges/{edge_id}:negotiate',
  auth: 'node-signature',
  params: EdgeParams,
  body: EdgeNegotiateRequest,
  success: { status: 200, schema: EdgeNegotiated },
  errors: ['not_found', 'conflict', 'validation_failed'],

  async handler({ caller, params, body, signal }, services) {
    const { role, offer, wait_ms = 0 } = body
    // A producer offers once before it has its payload, and once with it.
    const phase = typeof offer.size_bytes === 'number' || offer.inline !== undefined ? 'statement' : 'offer'
    const call = {
      cohortId: params.cohort_id,
      edgeId: params.edge_id,
      nodeId: caller.nodeId,
      operation: 'negotiate' as const,
      role,
      phase,
      body,
    }
    const ask = () =>
      atEdge(services, call, async (step, isRepeat) => {
        if (!isRepeat) await negotiate(step, offer)
        return { answer: await negotiated(step), isNews: isNews(standingOf(step), role) }
      })
    using watch = services.edgeWaiters.watch(params.edge_id)
    const until = performance.now() + wait_ms
    for (;;) {
      const { answer, isNews: hasNews } = await ask()
      const left = until - performance.now()
      if (hasNews || left <= 0 || signal.aborted || services.edgeWaiters.isClosing) return answer
      await watch.next(Math.min(left, READ_AGAIN_MS), signal)
    }
  },
})
