import { isNews } from '../../../../../domain/cohorts/edges/directive.ts'
import { EdgeNegotiated, EdgeNegotiateRequest, EdgeParams } from '../../../../../schemas/cohorts/edge.ts'
import { route } from '../../../../http/route.ts'
import { agreeOnEdge, negotiated, statementIn, takeOffer } from './negotiation.ts'
import { atEdge, endOverdue, standingOf } from './step.ts'
import { pollUntilChange } from './wait.ts'

export const negotiateEdge = route({
  operationId: 'negotiateEdge',
  summary: 'Offer to send or receive the payload of an edge, and wait for the other side',
  method: 'POST',
  path: '/cohorts/{cohort_id}/edges/{edge_id}:negotiate',
  auth: 'node-signature',
  params: EdgeParams,
  body: EdgeNegotiateRequest,
  success: { status: 200, schema: EdgeNegotiated },
  errors: ['not_found', 'conflict', 'validation_failed'],

  handler({ caller, params, body, signal }, services) {
    const { role, offer, wait_ms = 0 } = body
    // A producer offers once before it has a payload, and once with each payload that it produces.
    const stated = role === 'producer' ? statementIn(offer)?.sha256 : undefined
    const phase = stated === undefined ? 'offer' : `statement/${stated}`
    const call = {
      cohortId: params.cohort_id,
      edgeId: params.edge_id,
      nodeId: caller.nodeId,
      operation: 'negotiate' as const,
      role,
      phase,
      isLive: true,
      body,
    }
    return pollUntilChange(services, { edgeId: params.edge_id, waitMs: wait_ms, signal }, () =>
      atEdge(services, call, async (step, isRepeat) => {
        if (role === 'consumer') await endOverdue(step)
        if (!isRepeat) await takeOffer(step, offer)
        await agreeOnEdge(step)
        const hasMovedOn = step.edge.attempt !== body.attempt
        return {
          answer: await negotiated(step, services),
          isNews: hasMovedOn || isNews(standingOf(step), role),
        }
      }),
    )
  },
})
