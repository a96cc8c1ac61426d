import type { Kysely } from 'kysely'
import { faultsOf, type Graph } from '../../../domain/cohorts/graph.ts'
import { unknownInputs } from '../../../domain/cohorts/known-inputs.ts'
import { operationsOf } from '../../../domain/cohorts/operations.ts'
import type { PlanInput } from '../../../domain/cohorts/plan-graph.ts'
import { isByValue } from '../../../domain/cohorts/values.ts'
import type { PlanReason } from '../../../schemas/cohort-plan.ts'
import type { Database } from '../../tables.ts'
import { readSnapshots, visibleNames } from '../nodes/loads.ts'
import { readRates } from './edge-rates.ts'
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
  const named = graph.stages.flatMap(({ placement }) => placement?.node_ids ?? [])
  const ids = nodes.map(({ node_id }) => node_id)
  // Only representations go from node to node.
  const isDirect = [...handOvers.values()].some(({ kind }) => !isByValue(kind))
  return {
    graph,
    accountId,
    models: stageModels.models,
    stageModels,
    handOvers,
    nodes,
    nodeNames: await visibleNames(db, accountId, [...new Set(named)]),
    rateOf: isDirect ? await readRates(db, ids) : () => undefined,
    reasons: [
      ...faultsOf(graph),
      ...stageModels.reasons,
      ...unknownInputs(graph, stageModels.inputs),
      ...unsupported(graph, stageModels.models),
      ...reasons,
    ],
    now,
  }
}

/** Reasons for operations that the servers of their models do not have. */
const unsupported = ({ stages }: Graph, models: StageModels['models']): PlanReason[] =>
  stages.flatMap(({ stage_id, operation }) => {
    const model = models.get(stage_id)
    if (!model || operationsOf(model.runtime_profile, model.task_type).includes(operation)) return []
    const message = `stage "${stage_id}": the profile ${model.runtime_profile} does not serve the operation "${operation}" of a model for ${model.task_type}`
    return { code: 'operation_not_supported' as const, message, stage_id }
  })
