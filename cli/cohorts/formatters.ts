import type { MovedStage } from '../../domain/cohorts/event-data.ts'
import type { CohortEvent, CohortSummary, EdgeSummary, StageSummary } from '../../schemas/cohorts/cohort.ts'
import type { Plan } from '../../schemas/cohorts/plan.ts'
import { table } from '../print.ts'

const ms = (value: number | null): string => (value === null ? '' : `${Math.round(value)}`)

const SCORE_DIGITS = 3

interface Fault {
  message: string
  stage_id?: string
  edge_id?: string
}

/** Returns the location of a fault, unless its message already names it. */
function placeOf({ message, stage_id, edge_id }: Fault): string {
  const isTold = [stage_id, edge_id].some((name) => name !== undefined && message.includes(`"${name}"`))
  if (isTold) return ''
  return edge_id === undefined
    ? stage_id === undefined
      ? ''
      : ` at stage ${stage_id}`
    : ` at edge ${edge_id}`
}

const nodeOf = ({
  node_id,
  node_name,
}: {
  node_id: string | null
  node_name: string | null
}): string | null => node_name ?? node_id

/** Describes a plan: where each stage would run and when, or why the graph cannot run now. */
export function formatPlan(plan: Plan): string {
  const latency = `about ${Math.round(plan.estimated_latency_ms)} ms (no plan can take less than ${Math.round(plan.lower_bound_ms)} ms)`
  const head = plan.feasible
    ? `Plan ${plan.plan_id}: ${latency}, ${plan.estimated_cost_credits} credits, valid until ${plan.expires_at}.`
    : 'This graph cannot run now:'
  const lines = [
    head,
    ...plan.reasons.map((reason) => `  ${reason.code}${placeOf(reason)}: ${reason.message}`),
  ]
  const isPlaced = plan.stages.every(({ node_id }) => node_id !== null)
  return [...lines, ...(isPlaced ? formatPlacements(plan) : [])].join('\n')
}

function formatPlacements(plan: Plan): string[] {
  const stages = plan.stages.map((stage) => [
    stage.stage_id,
    nodeOf(stage),
    stage.model_state,
    ...[stage.start_ms, stage.load_ms, stage.run_ms, stage.end_ms, stage.slack_ms].map(ms),
    stage.price_credits,
  ])
  const edges = plan.edges.map((edge) => [
    edge.edge_id,
    edge.kind,
    wayOf(edge),
    edge.estimated_bytes,
    ms(edge.estimated_ms),
    edge.score?.toFixed(SCORE_DIGITS),
  ])
  const times = ['START ms', 'LOAD ms', 'RUN ms', 'END ms', 'SLACK ms']
  return [
    '',
    table(['STAGE', 'NODE', 'MODEL', ...times, 'CREDITS'], stages),
    ...(edges.length > 0
      ? ['', table(['EDGE', 'KIND', 'TRANSPORT', 'BYTES', 'TIME ms', 'SCORE'], edges)]
      : []),
    '',
    ...plan.stages.map(({ stage_id, why }) => `${stage_id}: ${why}`),
    ...(plan.critical_path.length > 0 ? [`Critical path: ${formatCriticalPath(plan)}.`] : []),
  ]
}

/** A stage follows another along an edge, or because it needs the node that the earlier stage occupies. */
function formatCriticalPath({ critical_path, edges }: Plan): string {
  return critical_path.reduce((path, stage, i) => {
    const before = critical_path[i - 1]
    const isEdge = edges.some(({ from, to }) => from.stage_id === before && to.stage_id === stage)
    return isEdge ? `${path} -> ${stage}` : `${path}, then on the same node ${stage}`
  })
}

/** The reason for the latest retry of each stage, by `stage_id`. */
export type Retries = ReadonlyMap<string, string>

/** Describes a cohort in one line, and its stages in a table. */
export function formatCohort(cohort: CohortSummary, retries: Retries): string {
  const stages = cohort.stages.map((stage) => [
    stage.stage_id,
    stage.status,
    attemptOf(stage, retries),
    nodeOf(stage),
    ...[stage.wait_ms, stage.load_ms, stage.run_ms].map(ms),
    stage.error && `${stage.error.code}: ${stage.error.message}`,
  ])
  const { error, waiting_for: waitsFor } = cohort
  const seconds = (cohort.elapsed_ms / 1_000).toFixed(1)
  return [
    `Cohort ${cohort.status} after ${seconds} s, ${cohort.cost_credits} credits.`,
    `Task ${cohort.task_id}, cohort ${cohort.cohort_id}.`,
    ...(error ? [`${error.code}${placeOf(error)}: ${error.message}`] : []),
    ...(waitsFor ? [`Waits for ${waitsFor}.`] : []),
    '',
    table(['STAGE', 'STATUS', 'ATTEMPT', 'NODE', 'WAIT ms', 'LOAD ms', 'RUN ms', 'ERROR'], stages),
  ].join('\n')
}

function attemptOf({ stage_id, attempt }: StageSummary, retries: Retries): string {
  const why = retries.get(stage_id)
  return why === undefined || attempt < 2 ? `${attempt || ''}` : `${attempt} (${why})`
}

/** Returns the transport of a hand-over, marked `session` if it's sent in frames. */
const wayOf = ({ transport, mode }: Pick<EdgeSummary, 'transport' | 'mode'>): string | null =>
  transport !== null && mode === 'session' ? `${transport}, session` : transport

/** Describes the hand-overs of a cohort in a table. */
export const formatEdges = ({ edges }: CohortSummary): string =>
  table(
    ['EDGE', 'KIND', 'STATE', 'ATTEMPT', 'TRANSPORT', 'BYTES', 'TIME ms', 'FAILURE'],
    edges.map((edge) => [
      edge.name,
      edge.kind,
      edge.state,
      edge.attempt,
      wayOf(edge),
      edge.bytes,
      ms(edge.transfer_ms),
      edge.failure,
    ]),
  )

/** Describes what a `cohort.resumed` event reused from the earlier cohort; undefined for other events. */
export function formatResume({ type, data }: CohortEvent): string | undefined {
  if (type !== 'cohort.resumed') return undefined
  const { stages = [], reason } = data as { stages?: string[]; reason?: string }
  return stages.length > 0
    ? `Taken over: ${stages.join(', ')}.`
    : `Nothing could be taken over: ${reason ?? 'unknown reason'}.`
}

/** Describes which stages a `cohort.replanned` event moved to other nodes; undefined for other events. */
function formatMoves({ type, data }: CohortEvent): string | undefined {
  if (type !== 'cohort.replanned') return undefined
  const { moved = [] } = data as { moved?: MovedStage[] }
  return moved
    .map(
      ({ stage_id, from, to, from_name, to_name }) =>
        `${stage_id} from ${from_name ?? from ?? 'no node'} to ${to_name ?? to ?? 'no node'}`,
    )
    .join(', ')
}

/** Describes an event in one line. Events carry only ids, so the names of edges and nodes come from summaries. */
export function formatEvent(event: CohortEvent, { edges, nodes }: DisplayNames): string {
  const about = [
    event.stage_id ?? (event.edge_id && edges.get(event.edge_id)),
    event.attempt && `attempt ${event.attempt}`,
    event.node_id && `on ${nodes.get(event.node_id) ?? event.node_id}`,
  ].filter(Boolean)
  const { code, reason, failure } = event.data as Record<string, unknown>
  const why =
    formatResume(event) ??
    formatMoves(event) ??
    [code, reason, failure].find((text) => typeof text === 'string')
  return [event.created_at, event.type, ...about, ...(why ? [`(${String(why)})`] : [])].join(' ')
}

/** Display names for the ids in events. */
export interface DisplayNames {
  edges: Map<string, string>
  nodes: Map<string, string>
}

/** Adds the names in a summary. Earlier names stay, because a summary lists only the node of the latest attempt. */
export function addNames({ edges, nodes }: DisplayNames, cohort: CohortSummary): void {
  for (const { edge_id, name } of cohort.edges) edges.set(edge_id, name)
  for (const { node_id, node_name } of cohort.stages)
    if (node_id !== null && node_name !== null) nodes.set(node_id, node_name)
}
