import assert from 'node:assert/strict'
import { failureOf, retriesIn } from '../../cli/cohorts/follow.ts'
import { formatCohort, formatEvent, formatPlan } from '../../cli/cohorts/formatters.ts'
import { newId } from '../../domain/ids.ts'
import type { CohortEvent, CohortSummary, EdgeSummary, StageSummary } from '../../schemas/cohorts/cohort.ts'
import type { PlannedEdge, PlannedStage } from '../../schemas/cohorts/plan.ts'

const AT = '2026-01-01T00:00:00.000Z'
const ID = newId()

const stage = (more: Partial<StageSummary>): StageSummary => ({
  stage_id: 'draft',
  endpoint_id: ID,
  model_name: 'draft',
  status: 'running',
  attempt: 1,
  node_id: ID,
  node_name: 'attic',
  model_state: null,
  wait_ms: null,
  load_ms: null,
  run_ms: null,
  started_at: null,
  completed_at: null,
  price_credits: 0,
  paid_to: null,
  output_kept: false,
  error: null,
  ...more,
})
const edge: EdgeSummary = {
  edge_id: ID,
  name: 'enc-cls-1',
  from: { stage_id: 'enc', path: '' },
  to: { stage_id: 'cls', path: '/x' },
  kind: 'embedding',
  state: 'failed',
  attempt: 1,
  transport: null,
  mode: 'transfer',
  bytes: null,
  sha256: null,
  transfer_ms: null,
  rate_mb_s: null,
  producer_node_id: null,
  consumer_node_id: null,
  evidence_id: null,
  failure: 'evidence_revoked',
}
const cohort = (more: Partial<CohortSummary>): CohortSummary => ({
  task_id: ID,
  cohort_id: ID,
  plan_id: ID,
  name: null,
  user_id: 'ann',
  status: 'running',
  created_at: AT,
  started_at: null,
  completed_at: null,
  deadline_at: AT,
  estimated_latency_ms: 0,
  elapsed_ms: 0,
  cost_credits: 0,
  replans: 0,
  error: null,
  waiting_for: null,
  stages: [],
  edges: [],
  critical_path: [],
  outputs: {},
  events_url: '',
  ...more,
})

describe('cohort output', () => {
  it('shows the reason for a retry next to the attempt, and the names of nodes', () => {
    const retried: CohortEvent = {
      event_id: ID,
      sequence: 1,
      type: 'stage.retried',
      task_id: ID,
      cohort_id: ID,
      stage_id: 'draft',
      edge_id: null,
      node_id: ID,
      attempt: 2,
      data: { code: 'node_lost' },
      created_at: AT,
    }
    const words = formatCohort(cohort({ stages: [stage({ attempt: 2 })] }), retriesIn([retried]))
    assert.match(words, /draft +running +2 \(node_lost\) +attic/)
    for (const line of words.split('\n').slice(0, 2)) assert.ok(line.length < 110, line)
  })

  it('names the stage and the hand-over at which a cohort failed', () => {
    const error = { code: 'edge_failed', message: 'no evidence', stage_id: 'cls' }
    const failure = failureOf(cohort({ status: 'failed', error, edges: [edge] }))
    assert.equal(
      failure?.message,
      'the cohort failed at stage "cls": no evidence; the hand-over "enc-cls-1" failed: evidence_revoked',
    )
  })

  it('lists edges in the critical path, and shows where a stage waits for a node instead', () => {
    const plannedStage: PlannedStage = {
      stage_id: 'a',
      endpoint_id: ID,
      model_name: 'a',
      node_id: ID,
      node_name: 'attic',
      model_state: 'cold',
      queue_ms: 0,
      load_ms: 0,
      run_ms: 0,
      start_ms: 0,
      end_ms: 0,
      slack_ms: 0,
      memory_mb: 1,
      price_credits: 0,
      why: 'it is the only node',
      alternatives: [],
      excluded: {},
    }
    const planned: PlannedEdge = {
      edge_id: 'b-c',
      from: { stage_id: 'b', path: '' },
      to: { stage_id: 'c', path: '/x' },
      kind: 'json',
      transport: 'inline',
      mode: 'transfer',
      estimated_bytes: 1,
      estimated_ms: 0,
      rate_mb_s: null,
      rate_source: 'default',
      evidence_id: null,
      score: 0.987654321,
    }
    const words = formatPlan({
      plan_id: ID,
      feasible: true,
      expires_at: AT,
      snapshot_at: AT,
      stages: ['a', 'b', 'c'].map((stage_id) => ({ ...plannedStage, stage_id })),
      edges: [planned],
      critical_path: ['a', 'b', 'c'],
      estimated_latency_ms: 0,
      lower_bound_ms: 0,
      estimated_cost_credits: 0,
      reasons: [],
      planner: { algorithm: 'x', candidates: 0, moves: 0, ms: 0 },
    })
    assert.match(words, /Critical path: a, then on the same node b -> c\.$/)
    assert.match(words, / 0\.988\n/)
  })

  it('names the stages that a new plan moved, with ids where names are unknown', () => {
    const moved = [
      { stage_id: 'draft', from: ID, to: ID, from_name: 'attic', to_name: 'cellar' },
      { stage_id: 'judge', from: null, to: ID, from_name: null, to_name: null },
    ]
    const event: CohortEvent = {
      event_id: ID,
      sequence: 1,
      type: 'cohort.replanned',
      task_id: ID,
      cohort_id: ID,
      stage_id: null,
      edge_id: null,
      node_id: null,
      attempt: null,
      data: { moved },
      created_at: AT,
    }
    assert.equal(
      formatEvent(event, { edges: new Map(), nodes: new Map() }),
      `${AT} cohort.replanned (draft from attic to cellar, judge from no node to ${ID})`,
    )
  })
})
