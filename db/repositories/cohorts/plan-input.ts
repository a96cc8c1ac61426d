import type { Kysely } from 'kysely'
import { faultsOf, type Graph } from '../../../domain/cohorts/graph.ts'
import type { PlanInput } from '../../../domain/cohorts/plan-graph.ts'
import type { PlanReason } from '../../../schemas/cohort-plan.ts'
import type { Database } from '../../tables.ts'
import { readSnapshots } from '../nodes/loads.ts'
import { readHandOvers } from './hand-overs.ts'
import { readStageModels, type StageModels } from './stage-models.ts'

/** Everything that a plan of a graph depends on, as it is now. */
export interface ReadPlanInput extends PlanInput {
  stageModels: StageModels
}

/** Reads the models, the nodes and the hand-overs of a graph on behalf of an account. */
export async function readPlanInput(
  db: Kysely<Database>,
  { graph, accountId, now }: { graph: Graph; accountId: string; now: Date },
): Promise<ReadPlanInput> {
  const stageModels = await readStageModels(db, graph, accountId)
  const nodes = await readSnapshots(db)
  const { handOvers, reasons } = await readHandOvers(db, graph, stageModels.configs)
  return {
    graph,
    accountId,
    models: stageModels.models,
    stageModels,
    handOvers,
    nodes,
    rateOf: () => undefined,
    reasons: [...faultsOf(graph), ...stageModels.reasons, ...unsupported(graph), ...reasons],
    now,
  }
}

const unsupported = ({ stages }: Graph): PlanReason[] =>
  stages
    .filter(({ operation }) => operation !== 'infer' && operation !== 'embed')
    .map(({ stage_id, operation }) => ({
      code: 'operation_not_supported' as const,
      message: `stage "${stage_id}": no profile of this release serves the operation "${operation}"`,
      stage_id,
    }))
