import type { Transaction } from 'kysely'
import Type from 'typebox'
import * as cohortRepository from '../../../../db/repositories/cohorts/cohorts.ts'
import * as modelSpaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import * as cohortStageRepository from '../../../../db/repositories/cohorts/stages.ts'
import * as cohortStartRepository from '../../../../db/repositories/cohorts/starts.ts'
import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import * as modelOrderRepository from '../../../../db/repositories/nodes/model-orders.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EdgeFacts, StageFacts } from '../../../../db/tables/cohorts.ts'
import type { LeaseRow } from '../../../../db/tables/nodes.ts'
import { isOpenStage } from '../../../../domain/cohorts/outcome.ts'
import { carriedBy, isByValue, withCarried } from '../../../../domain/cohorts/values.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { warmthOf } from '../../../../domain/placement/node-snapshot.ts'
import { isToolKey } from '../../../../domain/tools/catalog.ts'
import { turnKeyOf } from '../../../../platform/turn-key.ts'
import type { ModelSpace } from '../../../../schemas/cohorts/evaluator.ts'
import { type IncomingEdge, StageClaim } from '../../../../schemas/cohorts/stage.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { LEASE_SECONDS } from '../../../../schemas/nodes/lease-terms.ts'
import { ClaimRequest } from '../../../../schemas/nodes/lease.ts'
import { modelLoadStart } from '../../../../workflows/contract/starts.ts'
import { tellStageStarted } from '../../../cohorts/tell-started.ts'
import { route } from '../../../http/route.ts'

const conflict = (message: string, state: string) => new ApiError('conflict', message, { details: { state } })

export const claimStage = route({
  operationId: 'claimStage',
  summary: 'Claim a stage of a cohort',
  method: 'POST',
  path: '/cohorts/{cohort_id}/stages/{stage_id}:claim',
  auth: 'node-signature',
  params: Type.Object({ cohort_id: Uuid, stage_id: Uuid }),
  body: ClaimRequest,
  success: { status: 200, schema: StageClaim },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { nodeId }, params, body, afterCommit }, services) {
    const { db, now, links, outbox } = services
    const claimed = await db.transaction().execute(async (trx) => {
      const locked = await cohortStageRepository.lockStage(trx, params.stage_id)
      // The workflow writes the node into the row before it calls the node.
      if (!locked || locked.stage.cohort_id !== params.cohort_id || locked.stage.node_id !== nodeId)
        throw new ApiError('not_found', 'no such stage is assigned to this node')
      const { stage } = locked
      const cohort = await cohortRepository.readCohort(trx, stage.cohort_id)
      if (!cohort || !cohortRepository.isOpenCohort(cohort)) throw conflict('this cohort has ended', 'closed')
      if (!isOpenStage(stage)) throw conflict(`this stage's status is already ${stage.status}`, 'closed')
      const leaseS = body.lease_s ?? LEASE_SECONDS.default
      const lease = await leaseOf(trx, stage, { nodeId, leaseS })
      if (!lease) throw conflict('this stage is held under another lease', 'held')
      // A tool is started again for each stage, so it is never loaded.
      const isTool = isToolKey(stage.model_key)
      const isLoaded = isTool || warmthOf(links.placement.model(nodeId, stage.model_key)) === 'warm'
      const order = { modelKey: stage.model_key, nodeId }
      if (!isLoaded) await workflowStartRepository.enqueueWorkflow(trx, modelLoadStart(order))
      if (!isTool) await modelOrderRepository.orderModel(trx, order)
      const endpoint = await taskRepository.findEndpointFacts(trx, stage.endpoint_id)
      const isNews = isLoaded
        ? await cohortStartRepository.takeLoaded(trx, stage.id)
        : await cohortStageRepository.recordStep(trx, stage, 'loading')
      const spaces = new Map<string, ModelSpace>()
      for (const { source_space_id: id } of locked.incoming) {
        const space = id === null ? undefined : await modelSpaceRepository.findSpace(trx, id)
        if (space) spaces.set(space.id, space.specification)
      }
      const input = await knownInput(trx, locked)
      return { ...locked, cohort, lease, endpoint, spaces, input, isNews }
    })
    const { stage, cohort, lease, endpoint, incoming, outgoing, spaces, input, isNews } = claimed
    const spec = stage.outline
    afterCommit(() => {
      outbox.poke()
      // Only consumers wait for this signal, and each signal adds an event to the history.
      if (isNews && outgoing.length > 0) void tellStageStarted(services, stage)
    })
    return {
      cohort_id: cohort.id,
      stage_id: stage.id,
      name: stage.name,
      lease_token: lease.token,
      lease_expires_at: lease.expires_at.toISOString(),
      attempt: lease.attempt,
      turn: turnKeyOf(stage.account_id),
      endpoint_id: stage.endpoint_id,
      model_name: endpoint.name,
      model_key: stage.model_key,
      task_type: endpoint.task_type,
      operation: spec.operation,
      input,
      incoming: incoming
        .filter(({ from_stage_id }) => from_stage_id !== null)
        .map((edge) => ({
          ...sideOf(edge, edge.target_fingerprint),
          path: edge.to_path,
          space: shownOf(spaces.get(edge.source_space_id ?? '')),
        })),
      ...(spec.quorum !== undefined && { quorum: spec.quorum }),
      outgoing: outgoing
        .filter((edge) => !isByValue(edge.kind) && !edge.closed)
        .map((edge) => ({ ...sideOf(edge, edge.source_fingerprint), path: edge.from_path })),
      timeout_s: spec.timeout_s,
      deadline_ms: Math.max(0, cohort.deadline_at.getTime() - now().getTime()),
      deadline_at: cohort.deadline_at.toISOString(),
    }
  },
})

/**
 * Opens a stage's lease for the node that was called. Returns the existing lease if the node repeats a claim before the
 * stage runs.
 */
async function leaseOf(
  trx: Transaction<Database>,
  stage: StageFacts,
  { nodeId, leaseS }: { nodeId: string; leaseS: number },
): Promise<LeaseRow | undefined> {
  if (stage.status === 'called') {
    const subject = { kind: 'stage', subjectId: stage.id, accountId: stage.account_id } as const
    return leaseRepository.openLease(trx, { ...subject, nodeId, leaseS })
  }
  // A stage that needs no load is `waiting` as soon as it is claimed.
  if (stage.status !== 'loading' && stage.status !== 'waiting') return undefined
  const last = await leaseRepository.findLastLease(trx, 'stage', stage.id)
  return last?.node_id === nodeId && last.state === 'active' ? last : undefined
}

const sideOf = ({ id, attempt, kind, mode, transports, max_bytes }: EdgeFacts, fingerprint: string) => ({
  edge_id: id,
  attempt,
  kind,
  mode,
  transports,
  space_fingerprint: fingerprint,
  max_bytes: Number(max_bytes),
})

/** Returns the space properties that payloads can be checked against. */
function shownOf(space: ModelSpace | undefined): IncomingEdge['space'] {
  if (!space) return null
  const { kind, dtype, dimensions, engine, max_tokens } = space
  return {
    kind,
    ...(dtype && { dtype }),
    ...(dimensions !== undefined && { dimensions }),
    ...(engine && { engine }),
    ...(max_tokens !== undefined && { max_tokens }),
  }
}

/** Reads a stage's static input, with the values that come from the run's input. */
async function knownInput(
  trx: Transaction<Database>,
  { stage, incoming }: Pick<cohortStageRepository.LockedStage, 'stage' | 'incoming'>,
): Promise<Record<string, unknown>> {
  const stageInput = (await cohortRepository.readSpecifications(trx, [stage.id])).get(stage.id)?.input ?? {}
  const carried = incoming.filter(({ from_stage_id }) => from_stage_id === null)
  if (carried.length === 0) return stageInput
  const input = await cohortRepository.readRunInput(trx, stage.cohort_id)
  const edges = await cohortStageRepository.withTemplates(trx, carried)
  return edges.reduce((known, edge) => withCarried(known, edge, carriedBy(edge, input)), stageInput)
}
