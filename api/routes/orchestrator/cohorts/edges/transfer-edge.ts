import * as edgeRepository from '../../../../../db/repositories/cohorts/edges.ts'
import { EdgeAttempted, EdgeAttemptRequest, EdgeParams } from '../../../../../schemas/cohorts/edge.ts'
import { route } from '../../../../http/route.ts'
import type { Services } from '../../../../services.ts'
import { atEdge } from './step.ts'
import { transfer, transferred } from './transfer.ts'
import { pollUntilChange } from './wait.ts'

/** How long to wait for the producer's statement, which may arrive after the bytes of a direct transfer. */
const STATEMENT_TIMEOUT_MS = 10_000

interface AttemptCall {
  caller: { nodeId: string }
  params: EdgeParams
  body: EdgeAttemptRequest
  signal: AbortSignal
}

/** Takes a step of a transfer or session. Progress may be reported repeatedly; every other step, only once. */
async function attemptEdge(
  operation: 'transfer' | 'session',
  { caller, params, body, signal }: AttemptCall,
  services: Services,
): Promise<EdgeAttempted> {
  const { phase, role } = body
  const edgeId = params.edge_id
  const call = {
    cohortId: params.cohort_id,
    edgeId,
    nodeId: caller.nodeId,
    operation,
    role,
    // An interrupted session may begin again.
    isLive: operation === 'session' && phase === 'begin',
    body,
    ...(phase !== 'progress' && { phase }),
  }
  if (phase === 'end' && role === 'consumer' && !(await edgeRepository.isStated(services.db, edgeId))) {
    const { phase: _, ...asking } = call
    // Check the caller first: only the consumer itself may wait.
    await atEdge(services, asking, async () => ({}))
    await pollUntilChange(services, { edgeId, waitMs: STATEMENT_TIMEOUT_MS, signal }, async () => ({
      answer: undefined,
      isNews: await edgeRepository.isStated(services.db, edgeId),
    }))
  }
  return atEdge(services, call, async (step) => {
    await transfer(step, body, services)
    return transferred(step)
  })
}

const ATTEMPT = {
  method: 'POST',
  auth: 'node-signature',
  params: EdgeParams,
  body: EdgeAttemptRequest,
  success: { status: 200, schema: EdgeAttempted },
  errors: ['not_found', 'conflict'],
} as const

export const transferEdge = route({
  operationId: 'transferEdge',
  summary: 'Report the progress of a payload transfer',
  path: '/cohorts/{cohort_id}/edges/{edge_id}:transfer',
  ...ATTEMPT,
  handler: (request, services) => attemptEdge('transfer', request, services),
})

export const runEdgeSession = route({
  operationId: 'runEdgeSession',
  summary: 'Report the progress of an edge session',
  path: '/cohorts/{cohort_id}/edges/{edge_id}:session',
  ...ATTEMPT,
  handler: (request, services) => attemptEdge('session', request, services),
})
