import type { Transaction } from 'kysely'
import * as cohortRepository from '../../db/repositories/cohorts/cohorts.ts'
import * as cohortEventRepository from '../../db/repositories/cohorts/events.ts'
import type { NewCohortEvent } from '../../db/repositories/cohorts/events.ts'
import * as planRepository from '../../db/repositories/cohorts/plans.ts'
import * as workflowStartRepository from '../../db/repositories/platform/workflow-starts.ts'
import * as taskRepository from '../../db/repositories/tasks/tasks.ts'
import * as taskWriteRepository from '../../db/repositories/tasks/writes.ts'
import type { Database } from '../../db/tables.ts'
import { at, getOrThrow } from '../../domain/at.ts'
import { NO_TOKENS } from '../../domain/chat/chat.ts'
import type { StageModel } from '../../domain/cohorts/costs.ts'
import { listed, movedStage } from '../../domain/cohorts/event-data.ts'
import { ApiError } from '../../domain/errors.ts'
import { newId } from '../../domain/ids.ts'
import { hold } from '../../domain/ledger.ts'
import type { CohortAccepted, RunRequest } from '../../schemas/cohorts/cohort.ts'
import type { Plan, PlanRequest } from '../../schemas/cohorts/plan.ts'
import { cohortRunStart } from '../../workflows/contract/starts.ts'
import { passKillSwitchIn } from '../http/kill-switch-gate.ts'
import { quotaExceeded } from '../inference/queue-task.ts'
import type { Services } from '../services.ts'
import { checkRunInput } from './check-run-input.ts'
import { type CohortRows, rowsOf } from './cohort-rows.ts'
import { planRequest } from './plan-request.ts'
import { resumedCohort, takenOver } from './resumed-cohort.ts'

interface Admission {
  accountId: string
  /** The API key of the request. */
  keyId: string
  userId: string
  body: RunRequest
  now: Date
  signal: AbortSignal
}

/** Writes a cohort with its task, stages, holds and workflow start, in the transaction of its request. */
export async function admitRun(
  { trx, objects, planner }: { trx: Transaction<Database> } & Pick<Services, 'objects' | 'planner'>,
  admission: Admission,
): Promise<CohortAccepted> {
  const { accountId, body, now, signal } = admission
  const { request, earlier } = await requestOf(trx, admission)
  const planned = await planRequest(
    { db: trx, planner },
    { accountId, request, place: ['body', 'plan'], now, signal },
  )
  const { graph, plan, models } = planned
  if (!plan.feasible) {
    const message = `this graph cannot run now: ${plan.reasons[0]?.message}`
    throw new ApiError('conflict', message, { details: { reason: 'plan_infeasible', reasons: plan.reasons } })
  }
  if (earlier === undefined) await planRepository.insertPlan(trx, accountId, request, plan)
  checkRunInput(graph, body.input)
  const source = await resumedCohort(trx, admission, planned)

  const [taskId, cohortId, planId] = [newId(), newId(), earlier?.plan_id ?? plan.plan_id]
  const rows = rowsOf(admission, planned, { taskId, cohortId, planId, source })
  // Upload before locking anything. If the run is then rejected, the sweep removes these objects.
  for (const { key, payload } of rows.values)
    await objects.put(key, payload, { contentType: 'application/json' })
  const { quota, waiting } = await taskRepository.lockTaskQuota(trx, accountId)
  if (waiting >= quota) throw quotaExceeded(quota, waiting)
  const first = getOrThrow(models.models, at(graph.outputs, 0).stage_id)
  await insertTask(trx, { taskId, accountId, keyId: admission.keyId, first, now })
  await insertRows(trx, admission, rows)
  await cohortEventRepository.appendCohortEvents(trx, cohortId, [
    { type: 'cohort.queued', data: { user_id: admission.userId } },
    ...(source ? [{ type: 'cohort.resumed' as const, data: takenOver(source) }] : []),
    ...(earlier ? replanned(earlier, plan) : []),
  ])
  await workflowStartRepository.enqueueWorkflow(
    trx,
    cohortRunStart({
      cohortId,
      accountId,
      name: graph.name ?? 'cohort',
      stages: graph.stages.length,
      nodes: new Set(plan.stages.map(({ node_id }) => node_id)).size,
      modelKey: getOrThrow(models.models, at(graph.stages, graph.stages.length - 1).stage_id).model_key,
    }),
  )
  await passKillSwitchIn(trx)
  const note = `queued; the plan estimates about ${Math.ceil(plan.estimated_latency_ms / 1_000)} s. GET /api/v1/tasks/${taskId}/cohort shows its progress`
  return { task_id: taskId, cohort_id: cohortId, plan_id: planId, status: 'queued', note }
}

/** Returns the request to run, along with its plan if the client planned it earlier. */
async function requestOf(
  trx: Transaction<Database>,
  { accountId, body, now }: Admission,
): Promise<{ request: PlanRequest; earlier: Plan | undefined }> {
  const deadline = body.deadline_s
  const within = (request: PlanRequest): PlanRequest =>
    deadline === undefined
      ? request
      : { ...request, constraints: { ...request.constraints, deadline_s: deadline } }
  if (body.plan) return { request: within(body.plan), earlier: undefined }
  // oxlint-disable-next-line typescript/no-non-null-assertion -- the schema requires either plan or plan_id
  const found = await planRepository.findPlan(trx, { id: body.plan_id!, accountId })
  if (!found) throw new ApiError('not_found', 'there is no plan with this id')
  if (found.expires_at <= now) {
    const message = 'this plan has expired; plan again, or send the graph as "plan"'
    throw new ApiError('conflict', message, { details: { reason: 'plan_expired' } })
  }
  return { request: within(found.request), earlier: found.plan }
}

const insertTask = (
  trx: Transaction<Database>,
  {
    taskId,
    accountId,
    keyId,
    first,
    now,
  }: Pick<Admission, 'accountId' | 'keyId' | 'now'> & { taskId: string; first: StageModel },
): Promise<number> =>
  taskWriteRepository.insertTasks(trx, [
    {
      template: {
        account_id: accountId,
        endpoint_id: first.endpoint_id,
        status: 'queued',
        surface: 'cohort',
        model_key: first.model_key,
        model_state: null,
        // Each stage is charged separately.
        price_micro: 0,
        node_id: null,
        gateway_id: null,
        key_id: keyId,
        transfers: [],
        event: undefined,
      },
      id: taskId,
      input: null,
      result: null,
      error: null,
      inference_time_ms: null,
      created_at: now,
      started_at: null,
      completed_at: null,
      tokens: NO_TOKENS,
    },
  ])

/** Writes a cohort's rows and places a hold for the maximum cost of its stages. */
async function insertRows(
  trx: Transaction<Database>,
  { accountId }: Pick<Admission, 'accountId'>,
  { cohort, stages, edges }: CohortRows,
): Promise<void> {
  await cohortRepository.insertCohort(
    trx,
    cohort,
    stages.map(({ row }) => row),
    edges,
  )
  for (const { row, price } of stages)
    await cohortRepository.bookTransfers(trx, row.id, hold({ accountId, priceMicro: price }))
}

/** Returns the event that lists the stages a new plan moves to other nodes; empty if no stage moves. */
function replanned(earlier: Plan, plan: Plan): NewCohortEvent[] {
  const moved = plan.stages.flatMap((stage) => {
    const { stage_id } = stage
    const before = earlier.stages.find((one) => one.stage_id === stage_id)
    return before && before.node_id !== stage.node_id ? [movedStage(stage_id, before, stage)] : []
  })
  if (moved.length === 0) return []
  const { shown, ...left } = listed(moved)
  return [{ type: 'cohort.replanned', data: { moved: shown, ...left } }]
}
