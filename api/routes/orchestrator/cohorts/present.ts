import type { ShownEdge } from '../../../../db/repositories/cohorts/cohorts.ts'
import type { CohortEventRow, CohortFacts, StageFacts } from '../../../../db/tables/cohorts.ts'
import { RUN_INPUT } from '../../../../domain/cohorts/graph.ts'
import { isOpenStage } from '../../../../domain/cohorts/outcome.ts'
import type {
  CohortEvent,
  CohortSummary,
  EdgeSummary,
  StageSummary,
} from '../../../../schemas/cohorts/cohort.ts'

const MICRO = 1_000_000
const BYTES_PER_MS = 1_000

const iso = (date: Date | null): string | null => date?.toISOString() ?? null

const between = (from: Date | null, to: Date | null): number | null =>
  from && to ? Math.max(0, to.getTime() - from.getTime()) : null

interface PresentationContext {
  /** The names of the stages' endpoints. */
  names: ReadonlyMap<string, string>
  /** The names of the nodes that the account may see. */
  nodeNames: ReadonlyMap<string, string>
  now: Date
}

/** Returns a cohort as its account sees it. */
export function presentCohort(
  cohort: CohortFacts,
  stages: readonly StageFacts[],
  edges: readonly ShownEdge[],
  { names, nodeNames, now }: PresentationContext,
): CohortSummary {
  const byId = new Map(stages.map((stage) => [stage.id, stage]))
  return {
    task_id: cohort.task_id,
    cohort_id: cohort.id,
    plan_id: cohort.plan_id,
    name: cohort.name,
    user_id: cohort.user_id,
    status: cohort.status,
    created_at: cohort.created_at.toISOString(),
    started_at: iso(cohort.started_at),
    completed_at: iso(cohort.completed_at),
    deadline_at: cohort.deadline_at.toISOString(),
    estimated_latency_ms: cohort.estimated_latency_ms,
    elapsed_ms: between(cohort.created_at, cohort.completed_at ?? now) ?? 0,
    cost_credits: costMicro(cohort, stages) / MICRO,
    replans: cohort.replans,
    error: cohort.error,
    waiting_for: stages.filter(isOpenStage).find((stage) => stage.waiting_for !== null)?.waiting_for ?? null,
    stages: stages.map((stage) =>
      presentStage(stage, names.get(stage.endpoint_id) ?? null, nodeNames.get(stage.node_id ?? '') ?? null),
    ),
    edges: edges.map((edge) => presentEdge(edge, byId)),
    critical_path: cohort.critical_path,
    outputs: Object.fromEntries(
      cohort.outline.outputs.map(({ name }) => [name, { task_result_path: `/${name}` }]),
    ),
    events_url: `/api/v1/tasks/${cohort.task_id}/cohort/events`,
  }
}

/** Returns a cohort's cost: the amount paid once it has ended, and the maximum for its stages until then. */
const costMicro = ({ status }: CohortFacts, stages: readonly StageFacts[]): number =>
  stages.reduce((sum, stage) => {
    if (status === 'failed' || status === 'cancelled') return sum
    const isFree = stage.status === 'skipped' || stage.status === 'cancelled'
    return sum + (isFree ? 0 : Number(stage.price_micro))
  }, 0)

const presentStage = (
  stage: StageFacts,
  modelName: string | null,
  nodeName: string | null,
): StageSummary => ({
  stage_id: stage.name,
  endpoint_id: stage.endpoint_id,
  model_name: modelName,
  status: stage.status,
  attempt: stage.attempt,
  node_id: stage.node_id,
  node_name: nodeName,
  model_state: stage.model_state,
  wait_ms: between(stage.called_at, stage.claimed_at),
  load_ms: between(stage.claimed_at, stage.loaded_at),
  run_ms: stage.run_ms,
  started_at: iso(stage.started_at),
  completed_at: iso(stage.completed_at),
  price_credits: Number(stage.price_micro) / MICRO,
  paid_to: stage.paid_to,
  output_kept: stage.output_kept,
  error: stage.error && {
    code: stage.error.code,
    message: stage.error.message,
    stage_id: stage.name,
  },
})

function presentEdge(edge: ShownEdge, stages: ReadonlyMap<string, StageFacts>): EdgeSummary {
  const from = edge.from_stage_id === null ? undefined : stages.get(edge.from_stage_id)
  const to = stages.get(edge.to_stage_id)
  const { transfer_ms, size_bytes } = edge
  const bytes = size_bytes === null ? null : Number(size_bytes)
  const mode = edge.agreed_mode ?? edge.mode
  // A session takes as long as its producer works, so its duration is not a transfer time.
  const isMeasured = transfer_ms && bytes !== null && mode === 'transfer'
  return {
    edge_id: edge.id,
    name: edge.name,
    from: { stage_id: from?.name ?? RUN_INPUT, path: edge.from_path },
    to: { stage_id: to?.name ?? '', path: edge.to_path },
    kind: edge.kind,
    state: edge.state,
    attempt: edge.attempt,
    transport: edge.transport,
    mode,
    bytes,
    sha256: edge.sha256,
    transfer_ms,
    rate_mb_s: isMeasured ? bytes / BYTES_PER_MS / transfer_ms : null,
    producer_node_id: from?.node_id ?? null,
    consumer_node_id: to?.node_id ?? null,
    evidence_id: edge.evidence_id,
    failure: edge.failure,
  }
}

/** Returns an event of a cohort as its account sees it. */
export const presentEvent = (row: CohortEventRow, taskId: string): CohortEvent => ({
  event_id: row.id,
  sequence: row.sequence,
  type: row.type as CohortEvent['type'],
  task_id: taskId,
  cohort_id: row.cohort_id,
  stage_id: row.stage_name,
  edge_id: row.edge_id,
  node_id: row.node_id,
  attempt: row.attempt,
  data: row.data,
  created_at: row.created_at.toISOString(),
})
