import type { Kysely } from 'kysely'
import { readPlanInput } from '../../db/repositories/cohorts/plan-input.ts'
import type { StageModels } from '../../db/repositories/cohorts/stage-models.ts'
import { visibleNames } from '../../db/repositories/nodes/loads.ts'
import type { Database } from '../../db/tables.ts'
import { type Graph, graphOf } from '../../domain/cohorts/graph.ts'
import type { Handoff } from '../../domain/cohorts/handoffs.ts'
import type { OrderInput } from '../../domain/cohorts/objective.ts'
import { issuesOf } from '../../domain/cohorts/request-issues.ts'
import { invalidFor } from '../../domain/errors.ts'
import { newId } from '../../domain/ids.ts'
import type { Plan, PlanRequest } from '../../schemas/cohorts/plan.ts'
import type { Services } from '../services.ts'

/** A plan expires after ten minutes, because nodes and prices change. */
const PLAN_TTL_MS = 10 * 60_000

/** A plan with the graph and the models that it was made for. */
export interface PlannedRequest {
  /** The graph as requested; in `graph`, each stage starts with the endpoint that its objective prefers. */
  requestedGraph: Graph
  graph: Graph
  plan: Plan
  models: StageModels
  /** By `edge_id`. */
  handOvers: ReadonlyMap<string, Handoff>
}

interface PlanSubject {
  accountId: string
  request: PlanRequest
  place?: string[]
  now: Date
  signal: AbortSignal
}

/** Plans a request for an account; throws a 422 for an invalid graph, with locations relative to the request. */
export async function planRequest(
  { db, planner }: { db: Kysely<Database>; planner: Services['planner'] },
  { request, place, now, ...owner }: PlanSubject,
): Promise<PlannedRequest> {
  const issues = issuesOf(request, place)
  if (issues.length > 0) throw invalidFor(issues)
  const requestedGraph = graphOf(request)
  const { accountId } = owner
  const order = (input: OrderInput) => planner.order(input, owner)
  const { stageModels, ...input } = await readPlanInput(db, { graph: requestedGraph, accountId, now, order })
  const planned = await planner.plan(input, owner)
  const placed = planned.stages.flatMap(({ node_id }) => node_id ?? [])
  const names = await visibleNames(db, accountId, [...new Set(placed)])
  const stages = planned.stages.map((stage) => ({
    ...stage,
    node_name: names.get(stage.node_id ?? '') ?? null,
  }))
  const expires_at = new Date(now.getTime() + PLAN_TTL_MS).toISOString()
  return {
    requestedGraph,
    graph: input.graph,
    plan: { plan_id: newId(), expires_at, ...planned, stages },
    models: stageModels,
    handOvers: input.handOvers,
  }
}
