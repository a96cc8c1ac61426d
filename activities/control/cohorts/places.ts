import type { Kysely } from 'kysely'
import * as cohortRepository from '../../../db/repositories/cohorts/cohorts.ts'
import { readStageModels, type StageModels } from '../../../db/repositories/cohorts/stage-models.ts'
import { readSnapshots, visibleNames } from '../../../db/repositories/nodes/loads.ts'
import type { Database } from '../../../db/tables.ts'
import type { CohortFacts, StageFacts } from '../../../db/tables/cohorts.ts'
import { numberAt } from '../../../domain/at.ts'
import { costsOf } from '../../../domain/cohorts/costs.ts'
import { whyNoNode } from '../../../domain/cohorts/no-node.ts'
import { isOpenStage } from '../../../domain/cohorts/outcome.ts'
import type { GraphOutline } from '../../../domain/cohorts/outline.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'

const MAX_WHY_LENGTH = 300

/** All facts needed to place a cohort's stages, read once for all stages in a lookup. */
export interface PlacementFacts {
  cohort: CohortFacts
  stages: StageFacts[]
  models: Pick<StageModels, 'models' | 'reasons'>
  nodes: NodeSnapshot[]
  nodeNames: ReadonlyMap<string, string>
  now: Date
}

/** Where a stage would run now. */
export type StagePlacement =
  /** `isMoved` is true when the plan names another node. */
  | { verdict: 'place'; nodeId: string; stage: StageFacts; isMoved: boolean }
  | { verdict: 'waits'; why: string }
  /** The stage's endpoint may no longer be called. */
  | { verdict: 'refused'; why: string; attempt: number }
  /** The stage has ended, or its cohort has. */
  | { verdict: 'over' }

/**
 * Reads the facts needed to place these stages; undefined when their cohort has ended. The number of queries does not
 * depend on the number of stages.
 */
export async function readLook(
  db: Kysely<Database>,
  {
    cohortId,
    isAsked,
    now,
  }: { cohortId: string; isAsked: (stage: Pick<StageFacts, 'id' | 'name'>) => boolean; now: Date },
): Promise<PlacementFacts | undefined> {
  const cohort = await cohortRepository.readCohort(db, cohortId)
  if (!cohort || !cohortRepository.isOpenCohort(cohort)) return undefined
  const stages = await cohortRepository.readStages(db, cohortId)
  const outlines = stages
    .filter((stage) => isAsked(stage) && isOpenStage(stage))
    .map(({ outline, endpoint_id }) => ({ ...outline, endpoint_id, fallbacks: [] }))
  const named = outlines.flatMap(({ placement }) => placement?.node_ids ?? [])
  return {
    cohort,
    stages,
    models: await readStageModels(db, { stages: outlines.map(byEndpoint) }, cohort.account_id),
    nodes: await readSnapshots(db),
    nodeNames: await visibleNames(db, cohort.account_id, [...new Set(named)]),
    now,
  }
}

/** Records in `look` that a stage was called, so that later placements take it into account. */
export function noteCall({ stages }: PlacementFacts, stageId: string, nodeId: string): void {
  const index = stages.findIndex(({ id }) => id === stageId)
  const stage = stages[index]
  if (stage) stages[index] = { ...stage, status: 'called', node_id: nodeId }
}

/** An attempt's endpoint may be a fallback, so ignore the model that the graph names. */
function byEndpoint<S extends { model_config_id?: string }>(stage: S): Omit<S, 'model_config_id'> {
  const { model_config_id: _, ...rest } = stage
  return rest
}

/** Returns whether two stages must share a node: one names the other, or an edge between them allows only `local`. */
function areTied(
  { edges }: Pick<GraphOutline, 'edges'>,
  a: Pick<StageFacts, 'name' | 'outline'>,
  b: Pick<StageFacts, 'name' | 'outline'>,
): boolean {
  if (a.outline.placement?.same_node_as === b.name || b.outline.placement?.same_node_as === a.name)
    return true
  const names = [a.name, b.name]
  return edges.some(
    ({ from, to, transports }) =>
      transports?.every((way) => way === 'local') &&
      from.stage_id !== to.stage_id &&
      names.includes(from.stage_id) &&
      names.includes(to.stage_id),
  )
}

/**
 * Chooses a stage's node: the planned one while it fits, otherwise the one where the stage would finish earliest.
 * @param avoid nodes that have lost the stage, earliest first.
 */
export function choosePlace(
  { cohort, stages, models, nodes, nodeNames, now }: PlacementFacts,
  { stageId, avoid }: { stageId: string; avoid: readonly string[] },
): StagePlacement {
  const stage = stages.find(({ id }) => id === stageId)
  if (!stage || !isOpenStage(stage)) return { verdict: 'over' }
  const model = models.models.get(stage.name)
  if (!model) {
    const refusal = models.reasons.find(({ stage_id }) => stage_id === stage.name)
    return {
      verdict: 'refused',
      why: refusal?.message ?? 'its model no longer exists',
      attempt: stage.attempt,
    }
  }
  const { constraints } = cohort.outline
  const occupied = stages.filter(({ id, node_id }) => id !== stageId && node_id !== null)
  const isThere = (nodeId: string | null) => nodes.some(({ node_id }) => node_id === nodeId)
  // A stage that will be called again is placed to match this one, so it doesn't constrain this one yet; neither does a
  // stage that ended on a lost node.
  const tiedTo = occupied.find(
    (other) =>
      other.status !== 'pending' &&
      (isOpenStage(other) || isThere(other.node_id)) &&
      areTied(cohort.outline, other, stage),
  )
  // As in a plan, tied stages share a node even when all others must be on separate nodes.
  const apart = constraints.spread
    ? occupied.flatMap(({ node_id }) => (node_id === null || node_id === tiedTo?.node_id ? [] : node_id))
    : []
  const costs = costsOf(stage.outline, model, nodes, {
    accountId: cohort.account_id,
    ...(constraints.hardware && { hardware: constraints.hardware }),
    ...(constraints.node_accounts && { nodeAccounts: constraints.node_accounts }),
    avoid: new Set(apart),
    now: now.getTime(),
  })
  const able = nodes
    .map(({ node_id, account_id }, i) => ({
      nodeId: node_id,
      isForeign: constraints.objective === 'cost' && account_id !== cohort.account_id ? 1 : 0,
      end:
        tiedTo && tiedTo.node_id !== node_id
          ? Infinity
          : numberAt(costs.queueMs, i) + numberAt(costs.loadMs, i) + numberAt(costs.runMs, i),
    }))
    .filter(({ end }) => end < Infinity)
    .toSorted((a, b) => a.isForeign - b.isForeign || a.end - b.end)
  const fresh = able.filter(({ nodeId }) => !avoid.includes(nodeId))
  const chosen =
    fresh.find(({ nodeId }) => nodeId === stage.planned_node_id) ??
    fresh[0] ??
    // A node that lost the stage is better than none; the longer ago, the better.
    able.toSorted((a, b) => avoid.indexOf(a.nodeId) - avoid.indexOf(b.nodeId))[0]
  if (chosen) {
    const { nodeId } = chosen
    return { verdict: 'place', nodeId, stage, isMoved: nodeId !== stage.planned_node_id }
  }
  const { excluded } = costs
  const reason =
    whyNoNode(stage.outline.placement?.node_ids, { names: nodeNames, nodes, excluded }) ||
    `it is tied to the node of stage "${tiedTo?.name}"`
  const why = `a node that can run stage "${stage.name}": ${reason}`.slice(0, MAX_WHY_LENGTH)
  return { verdict: 'waits', why }
}
