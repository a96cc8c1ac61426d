import {
  ResultPayloads,
  type ValuePayload,
  UnfitValuesError,
  valueKey,
} from '../../db/repositories/cohorts/payload-of.ts'
import type { NewCohort, NewCohortEdge, NewCohortStage } from '../../db/tables/cohorts.ts'
import { getOrThrow } from '../../domain/at.ts'
import type { StageModel } from '../../domain/cohorts/costs.ts'
import { type Graph, type GraphStage, RUN_INPUT } from '../../domain/cohorts/graph.ts'
import type { Handoff } from '../../domain/cohorts/handoffs.ts'
import { outlineOfGraph, outlineOfStage } from '../../domain/cohorts/outline.ts'
import { isByValue } from '../../domain/cohorts/values.ts'
import { invalid } from '../../domain/errors.ts'
import { newId } from '../../domain/ids.ts'
import type { RunRequest } from '../../schemas/cohorts/cohort.ts'
import { COHORT_LIMITS } from '../../schemas/cohorts/plan.ts'
import type { Transport } from '../../schemas/cohorts/vocabulary.ts'
import type { PlannedRequest } from './plan-request.ts'
import { madeAs, type Source } from './resumed-cohort.ts'

interface CohortRequest {
  accountId: string
  userId: string
  body: RunRequest
  now: Date
}

interface Ids {
  taskId: string
  cohortId: string
  planId: string
  source: Source | undefined
}

/** The rows of a new cohort, and the objects that must be stored before them. */
export interface CohortRows {
  cohort: NewCohort
  /** Each stage with its maximum price. */
  stages: { row: NewCohortStage & { id: string }; price: number }[]
  edges: NewCohortEdge[]
  /** Values of reused stages that are too large for the rows of their edges. */
  values: { key: string; payload: Buffer }[]
}

/** Returns the rows of a cohort. Edges from reused stages already contain their values. */
export function rowsOf(
  { accountId, userId, body, now }: CohortRequest,
  { requestedGraph, graph, plan, models, handOvers }: PlannedRequest,
  { taskId, cohortId, planId, source }: Ids,
): CohortRows {
  const { deadline_s } = graph.constraints
  const stages = graph.stages.map((stage, position) => {
    const { model, price } = priced(models, stage)
    const planned = plan.stages.find(({ stage_id }) => stage_id === stage.stage_id)
    const kept = source?.stages.get(stage.stage_id)
    const isSpare = source?.spare.has(stage.stage_id)
    // A failed or cancelled run never paid for the stages that we reuse.
    const owed = kept && !source?.paid.has(stage.stage_id) ? Number(kept.price_micro) : 0
    return {
      price: kept || isSpare ? owed : price,
      row: {
        id: newId(),
        cohort_id: cohortId,
        account_id: accountId,
        name: stage.stage_id,
        position,
        specification: JSON.stringify(stage),
        outline: JSON.stringify(outlineOfStage(stage)),
        endpoint_id: model.endpoint_id,
        model_key: model.model_key,
        price_micro: kept || isSpare ? owed : model.price_micro,
        planned_node_id: planned?.node_id ?? null,
        ...(isSpare && { status: 'skipped' as const, attempt: 0, completed_at: now }),
        ...(kept && {
          status: 'succeeded' as const,
          attempt: 0,
          taken_from: madeAs(kept),
          result: kept.result,
          ...(kept.outputs && { outputs: JSON.stringify(kept.outputs) }),
          output_kept: true,
          completed_at: now,
        }),
      },
    }
  })
  const ids = new Map(stages.map(({ row }) => [row.name, row.id]))
  const results = new Map(
    [...(source?.stages ?? [])].flatMap(([name, { result }]) =>
      result ? [[name, new ResultPayloads(JSON.parse(result.toString()))] as const] : [],
    ),
  )
  const values: CohortRows['values'] = []
  let bytes = 0
  const edges = graph.edges.map((edge) => {
    const row = edgeRow(graph, edge, { cohortId, ids, handOver: getOrThrow(handOvers, edge.edge_id) })
    const payloads = results.get(edge.from.stage_id)
    if (row.from_stage_id === null) return row
    // A spare consumer needs no values, and a reused consumer ran without those producers that aren't reused.
    if (source?.spare.has(edge.to.stage_id) || (!payloads && results.has(edge.to.stage_id)))
      return { ...row, closed: true }
    if (!payloads || !isByValue(row.kind)) return row
    const value = valueOf(payloads, row)
    if (value === undefined) return { ...row, closed: true }
    const { payload, ...statement } = value
    const given = { ...row, encoding: 'json', ...statement }
    // The edge's consumer is reused as well.
    if (results.has(edge.to.stage_id))
      return { ...given, state: 'consumed' as const, consumed_at: now, closed: true }
    const key = valueKey({ edge: row, accountId, value })
    if (key === undefined)
      return { ...given, state: 'transferred' as const, transport: 'inline' as const, payload }
    values.push({ key, payload })
    bytes += payload.length
    if (bytes > COHORT_LIMITS.valueBytes)
      throw invalid(
        ['body', 'plan', 'edges'],
        `the values that they read from reused results have more than ${COHORT_LIMITS.valueBytes} bytes in total; select smaller parts with "path"`,
      )
    return { ...given, payload_key: key }
  })
  return {
    cohort: {
      id: cohortId,
      task_id: taskId,
      account_id: accountId,
      user_id: userId,
      plan_id: planId,
      name: graph.name,
      request: JSON.stringify(requestedGraph),
      outline: JSON.stringify(outlineOfGraph(requestedGraph)),
      input: JSON.stringify(body.input),
      labels: JSON.stringify(body.labels ?? {}),
      keep_outputs: body.keep_outputs ?? false,
      resume_of: source?.cohort.id ?? null,
      deadline_at: new Date(now.getTime() + 1_000 * deadline_s),
      estimated_latency_ms: plan.estimated_latency_ms,
      critical_path: JSON.stringify(plan.critical_path),
      created_at: now,
    },
    stages,
    edges,
    values,
  }
}

/** Returns a stage's model, and the highest price of that model and its fallbacks. */
function priced(
  { models, fallbacks }: PlannedRequest['models'],
  { stage_id }: GraphStage,
): { model: StageModel; price: number } {
  const model = getOrThrow(models, stage_id)
  const others = (fallbacks.get(stage_id) ?? []).map(({ price_micro }) => price_micro)
  return { model, price: Math.max(model.price_micro, ...others) }
}

type ValueRow = NewCohortEdge & { template: string | null }

/** Returns the initial row of an edge. An edge from the run's input starts out consumed. */
function edgeRow(
  graph: Graph,
  { edge_id, from, to, mode, transports, max_bytes, min_score }: Graph['edges'][number],
  { cohortId, ids, handOver }: { cohortId: string; ids: ReadonlyMap<string, string>; handOver: Handoff },
): ValueRow {
  const { score: _, ...connects } = handOver
  const isInput = from.stage_id === RUN_INPUT
  return {
    id: newId(),
    cohort_id: cohortId,
    name: edge_id,
    from_stage_id: isInput ? null : getOrThrow(ids, from.stage_id),
    to_stage_id: getOrThrow(ids, to.stage_id),
    from_path: from.path,
    to_path: to.path,
    template: to.template ?? null,
    ...connects,
    mode,
    transports: allowedTransports(graph, transports),
    max_bytes,
    min_score: min_score ?? graph.constraints.min_score,
    // The stage reads this value directly from the run's input.
    ...(isInput && { state: 'consumed' as const, transport: 'inline' as const }),
  }
}

function valueOf(payloads: ResultPayloads, edge: ValueRow): ValuePayload | undefined {
  try {
    return payloads.of(edge)
  } catch (err) {
    throw err instanceof UnfitValuesError ? invalid(['body', 'plan', 'edges'], err.message) : err
  }
}

const ALL_BUT_RELAY: readonly Transport[] = ['local', 'inline', 'direct', 'engine']

/** Returns the transports that the edge and its graph allow; null for all. */
function allowedTransports(
  { constraints }: Graph,
  transports: readonly Transport[] | undefined,
): string | null {
  if (constraints.allow_relay !== false) return transports ? JSON.stringify(transports) : null
  return JSON.stringify((transports ?? ALL_BUT_RELAY).filter((way) => way !== 'relay'))
}
