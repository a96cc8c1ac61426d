import * as edgeRepository from '../../../../../db/repositories/cohorts/edges.ts'
import { directiveOf } from '../../../../../domain/cohorts/edges/directive.ts'
import { EdgeConsumed, EdgeConsumeRequest, EdgeParams } from '../../../../../schemas/cohorts/edge.ts'
import { route } from '../../../../http/route.ts'
import { atEdge, type EdgeStep, groundFacts, failStep, standingOf, statedOf, takeStep } from './step.ts'

export const consumeEdge = route({
  operationId: 'consumeEdge',
  summary: 'Consume the payload of an edge, or refuse it',
  method: 'POST',
  path: '/cohorts/{cohort_id}/edges/{edge_id}:consume',
  auth: 'node-signature',
  params: EdgeParams,
  body: EdgeConsumeRequest,
  success: { status: 200, schema: EdgeConsumed },
  errors: ['not_found', 'conflict'],

  handler({ caller, params, body }, services) {
    const call = {
      cohortId: params.cohort_id,
      edgeId: params.edge_id,
      nodeId: caller.nodeId,
      role: 'consumer' as const,
      operation: 'consume' as const,
      phase: 'consume',
      body,
    }
    return atEdge(services, call, async (step) => {
      if (!step.edge.closed) await take(step, body)
      return {
        ...directiveOf(standingOf(step), 'consumer'),
        consumed_at: step.edge.consumed_at?.toISOString() ?? null,
        stage_may_run: await edgeRepository.mayRun(step.trx, step.sides.consumer),
      }
    })
  },
})

/** Consumes the payload, or ends the attempt if the consumer rejects it; a rejection may include a reason. */
async function take(step: EdgeStep, body: EdgeConsumeRequest): Promise<void> {
  const { edge, attempt, locked } = step
  if (body.outcome === 'refused') {
    return failStep(
      step,
      body.failure ?? 'refused',
      body.message === undefined ? {} : { message: body.message },
    )
  }
  await takeStep(step, 'consume', {
    facts: {
      payload: { stated: statedOf(edge), seen: body },
      space: { seen: body.space_fingerprint, expected: edge.source_fingerprint },
      shape: { stated: edge.shape, seen: body.shape ?? null },
      adapter: { seen: body.adapter_sha256 ?? null, expected: attempt.agreed?.adapter?.sha256 ?? null },
      ...groundFacts(step),
    },
    edge: { consumed_at: locked.now },
    data: { bytes: body.bytes },
  })
}
