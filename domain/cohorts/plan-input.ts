import type { PlanReason } from '../../schemas/cohorts/plan.ts'
import type { NodeSnapshot } from '../placement/node-snapshot.ts'
import type { StageModel } from './costs.ts'
import type { Graph } from './graph.ts'
import type { Handoff } from './handoffs.ts'
import type { PairRates } from './transfers.ts'

/** The input of a plan. Can be copied to a worker thread. */
export interface PlanInput {
  graph: Graph
  accountId: string
  /** By `stage_id`. For a stage without a model, `reasons` says why. */
  models: ReadonlyMap<string, StageModel>
  /**
   * Models called after the last attempt of a stage, by `stage_id`; the most expensive one counts toward the budget.
   */
  fallbacks?: ReadonlyMap<string, readonly Pick<StageModel, 'price_micro'>[]>
  /** By `edge_id`. */
  handOvers: ReadonlyMap<string, Handoff>
  nodes: readonly NodeSnapshot[]
  /** Names of the nodes that stages name and the account may see, connected or not. */
  nodeNames: ReadonlyMap<string, string>
  rates: PairRates
  /** Problems with the graph that are already known. */
  reasons: readonly PlanReason[]
  now: Date
}
