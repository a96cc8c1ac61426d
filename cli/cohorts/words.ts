import type { Plan } from '../../schemas/cohort-plan.ts'
import type { CohortEvent, CohortSummary } from '../../schemas/cohort.ts'
import { table } from '../print.ts'

const ms = (value: number | null): string => (value === null ? '' : `${Math.round(value)}`)

const placeOf = ({ stage_id, edge_id }: { stage_id?: string; edge_id?: string }): string =>
  edge_id === undefined ? (stage_id === undefined ? '' : ` at stage ${stage_id}`) : ` at edge ${edge_id}`

/** Describes a plan: where each stage would run and when, or why the graph cannot run now. */
export function planInWords(plan: Plan): string {
  const stages = plan.stages.map((stage) => [
    stage.stage_id,
    stage.node_id,
    stage.model_state,
    ...[stage.start_ms, stage.load_ms, stage.run_ms, stage.end_ms, stage.slack_ms].map(ms),
    stage.price_credits,
  ])
  const edges = plan.edges.map((edge) => [
    edge.edge_id,
    edge.kind,
    edge.transport,
    edge.estimated_bytes,
    ms(edge.estimated_ms),
    edge.score,
  ])
  const latency = `about ${Math.round(plan.estimated_latency_ms)} ms (no plan is below ${Math.round(plan.lower_bound_ms)} ms)`
  return [
    plan.feasible
      ? `Plan ${plan.plan_id}: ${latency}, ${plan.estimated_cost_credits} credits, valid until ${plan.expires_at}.`
      : 'This graph cannot run now:',
    ...plan.reasons.map((reason) => `  ${reason.code}${placeOf(reason)}: ${reason.message}`),
    '',
    table(['STAGE', 'NODE', 'MODEL', 'START', 'LOAD', 'RUN', 'END ms', 'SLACK', 'CREDITS'], stages),
    ...(edges.length > 0 ? ['', table(['EDGE', 'KIND', 'TRANSPORT', 'BYTES', 'ms', 'SCORE'], edges)] : []),
    '',
    ...plan.stages.map(({ stage_id, why }) => `${stage_id}: ${why}`),
    ...(plan.critical_path.length > 0 ? [`Critical path: ${plan.critical_path.join(' -> ')}.`] : []),
  ].join('\n')
}

/** Describes a cohort in one line, and its stages in a table. */
export function cohortInWords(cohort: CohortSummary): string {
  const stages = cohort.stages.map((stage) => [
    stage.stage_id,
    stage.status,
    stage.attempt || '',
    stage.node_id,
    ...[stage.wait_ms, stage.load_ms, stage.run_ms].map(ms),
    stage.error && `${stage.error.code}: ${stage.error.message}`,
  ])
  const { error, waiting_for: waitsFor } = cohort
  const seconds = (cohort.elapsed_ms / 1_000).toFixed(1)
  return [
    `Cohort ${cohort.cohort_id} ${cohort.status} after ${seconds} s, ${cohort.cost_credits} credits; task ${cohort.task_id}.`,
    ...(error ? [`${error.code}${placeOf(error)}: ${error.message}`] : []),
    ...(waitsFor ? [`Waits for ${waitsFor}.`] : []),
    '',
    table(['STAGE', 'STATUS', 'ATTEMPT', 'NODE', 'WAIT', 'LOAD', 'RUN ms', 'ERROR'], stages),
  ].join('\n')
}

/** Describes the hand-overs of a cohort in a table. */
export const edgesInWords = ({ edges }: CohortSummary): string =>
  table(
    ['EDGE', 'KIND', 'STATE', 'ATTEMPT', 'TRANSPORT', 'BYTES', 'ms', 'FAILURE'],
    edges.map((edge) => [
      edge.name,
      edge.kind,
      edge.state,
      edge.attempt,
      edge.transport,
      edge.bytes,
      ms(edge.transfer_ms),
      edge.failure,
    ]),
  )

/** Describes an event in one line; an edge has its name in the summary alone. */
export function eventInWords(event: CohortEvent, { edges }: CohortSummary): string {
  const edge = edges.find(({ edge_id }) => edge_id === event.edge_id)?.name
  const about = [
    event.stage_id ?? edge,
    event.attempt && `attempt ${event.attempt}`,
    event.node_id && `on ${event.node_id}`,
  ].filter(Boolean)
  const { code, reason, failure } = event.data as Record<string, unknown>
  const why = [code, reason, failure].find((text) => typeof text === 'string')
  return [event.created_at, event.type, ...about, ...(why ? [`(${String(why)})`] : [])].join(' ')
}
