import type { Kysely } from 'kysely'
import { faultsOf, type Graph } from '../../../domain/cohorts/graph.ts'
import { unfitFallbacks, unknownInputs } from '../../../domain/cohorts/known-inputs.ts'
import { unknownOutputs } from '../../../domain/cohorts/known-outputs.ts'
import { cheapestAble, type OrderInput } from '../../../domain/cohorts/objective.ts'
import type { PlanInput } from '../../../domain/cohorts/plan-input.ts'
import { LATER, operationsOf, severalSpaces, unmadeKinds } from '../../../domain/cohorts/stage-operations.ts'
import { isByValue } from '../../../domain/cohorts/values.ts'
import type { PlanReason } from '../../../schemas/cohorts/plan.ts'
import type { Database } from '../../tables.ts'
import { readSnapshots, visibleNames } from '../nodes/loads.ts'
import { readRates } from './edge-rates.ts'
import { readHandoffs } from './handoffs.ts'
import { type FallbackModel, readStageModels, type StageModels } from './stage-models.ts'

/** The current state of everything that a plan of a graph depends on. */
export interface ReadPlanInput extends PlanInput {
  stageModels: StageModels
}

interface PlanSubject {
  graph: Graph
  accountId: string
  now: Date
  /** Orders the endpoints of each stage for the objective `cost`. */
  order?: (input: OrderInput) => Graph | Promise<Graph>
}

/**
 * Reads the models, the nodes and the hand-overs of a graph on behalf of an account. In the returned graph, each stage
 * begins with the endpoint that its objective prefers.
 */
export async function readPlanInput(
  db: Kysely<Database>,
  { graph: asked, accountId, now, order = cheapestAble }: PlanSubject,
): Promise<ReadPlanInput> {
  const read = await readStageModels(db, asked, accountId)
  const nodes = await readSnapshots(db)
  const { objective, node_accounts: nodeAccounts = 'any', hardware = 'any' } = asked.constraints
  const isCheapest = objective === 'cost'
  const wanted = { accountId, nodeAccounts, hardware, now: now.getTime() }
  const graph = isCheapest
    ? await order({ graph: asked, models: read.models, fallbacks: modelsOf(read), nodes, wanted })
    : asked
  const stageModels = isCheapest ? await readStageModels(db, graph, accountId) : read
  const { handOvers, reasons } = await readHandoffs(db, graph, stageModels)
  const named = graph.stages.flatMap(({ placement }) => placement?.node_ids ?? [])
  const ids = nodes.map(({ node_id }) => node_id)
  // Only representations are transferred directly between nodes.
  const isDirect = [...handOvers.values()].some(({ kind }) => !isByValue(kind))
  return {
    graph,
    accountId,
    models: stageModels.models,
    fallbacks: pricesOf(stageModels),
    stageModels,
    handOvers,
    nodes,
    nodeNames: await visibleNames(db, accountId, [...new Set(named)]),
    rates: isDirect ? await readRates(db, ids) : new Map(),
    reasons: [
      ...faultsOf(graph),
      ...stageModels.reasons,
      ...unknownInputs(graph, stageModels.listings),
      ...unfitFallbacks(graph, stageModels.listings, stageModels.fallbacks),
      ...unknownOutputs(graph, stageModels.listings),
      ...unsupported(graph, stageModels),
      ...unmadeKinds(graph, handOvers, stageModels),
      ...severalSpaces(graph, handOvers),
      ...reasons,
    ],
    now,
  }
}

/** Returns the fallbacks without their schemas, which would be expensive to copy to a thread. */
const modelsOf = ({ fallbacks }: StageModels): OrderInput['fallbacks'] => {
  const bare = (fallback: FallbackModel) => {
    const { input_schema: _, ...model } = fallback
    return model
  }
  return new Map([...fallbacks].map(([id, models]) => [id, models.map(bare)] as const))
}

const pricesOf = ({ fallbacks }: StageModels): NonNullable<PlanInput['fallbacks']> =>
  new Map(
    [...fallbacks].map(([id, models]) => [id, models.map(({ price_micro }) => ({ price_micro }))] as const),
  )

/** Returns a reason for each operation that the servers of the models, or of their fallbacks, do not support. */
const unsupported = ({ stages }: Graph, { models, fallbacks }: StageModels): PlanReason[] =>
  stages.flatMap(({ stage_id, operation }) => {
    if (operation === 'layers') {
      const message = `stage "${stage_id}": the operation "layers" ${LATER}`
      return [{ code: 'operation_not_supported' as const, message, stage_id }]
    }
    const own = models.get(stage_id)
    const all = [
      ...(own ? [{ model: own, of: '' }] : []),
      ...(fallbacks.get(stage_id) ?? []).map((model) => ({ model, of: ` of its fallback "${model.ref}"` })),
    ]
    return all
      .filter(({ model }) => !operationsOf(model.runtime_profile, model.task_type).includes(operation))
      .map(({ model: { runtime_profile, task_type }, of }) => ({
        code: 'operation_not_supported' as const,
        message: `stage "${stage_id}": the profile ${runtime_profile}${of} does not serve the operation "${operation}" of a model for ${task_type}`,
        stage_id,
      }))
  })
