import * as cohortRepository from '../../../db/repositories/cohorts/cohorts.ts'
import { type CohortEnding, endCohort } from '../../../db/repositories/cohorts/endings.ts'
import { readPlanInput } from '../../../db/repositories/cohorts/plan-input.ts'
import * as cohortStageRepository from '../../../db/repositories/cohorts/stages.ts'
import * as cohortStartRepository from '../../../db/repositories/cohorts/starts.ts'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import type { CohortRow, CohortStageRow } from '../../../db/tables/cohorts.ts'
import { costsOf } from '../../../domain/cohorts/costs.ts'
import { type Graph, type GraphStage, RUN_INPUT } from '../../../domain/cohorts/graph.ts'
import { whyNoNode } from '../../../domain/cohorts/no-node.ts'
import { isOpenStage } from '../../../domain/cohorts/outcome.ts'
import { isToolKey } from '../../../domain/tools/catalog.ts'
import { turnOf } from '../../../platform/turn-of-account.ts'
import type { ControlDeps } from '../deps.ts'
import { removeCohortFiles } from './cohort-files.ts'
import { putBack } from './put-back.ts'
import { type EndedAttempt, settleStage, type Settled } from './settle-stage.ts'

/** What the workflow needs to know of a stage. It is small, because the history stores it. */
export interface StageOutline {
  id: string
  name: string
  /** The stages that it waits for, by name. */
  producers: string[]
  quorum?: number
  /** True when its result is, or is a part of, an output of the cohort. */
  isOutput: boolean
  isDone: boolean
  /** True when it has ended without a result. */
  isOff?: boolean
}

/** A cohort as its workflow begins. */
export interface OpenedCohort {
  ended: boolean
  accountId: string
  /** Absent from histories of before. */
  taskId?: string
  /** Epoch milliseconds. */
  deadlineAt: number
  stages: StageOutline[]
}

export type CallResult =
  /** `calledAt`, in epoch milliseconds, tells the calls of one attempt apart; absent where its node has begun already. */
  | {
      verdict: 'called'
      nodeId: string
      nodeName: string
      attempt: number
      calledAt?: number
      /** The key of the account's turns on the node. Workers before 0.13 do not return it. */
      turn?: string
    }
  | { verdict: 'waits'; why: string }
  /** Its endpoint may no longer be called. */
  | { verdict: 'refused'; why: string; attempt: number }
  /** The stage has ended, or its cohort has. */
  | { verdict: 'over' }

/** Stages by id: those that were put back, and those that have to work again for them. */
export interface PutBack {
  putBack: string[]
  repeat: string[]
}

const LONGEST_WHY = 300

export const createCohortActivities = ({ db, objects, now }: ControlDeps) => ({
  /** Starts a cohort, and returns its graph. Safe to repeat because the row moves once. */
  async openCohort({ cohortId }: { cohortId: string }): Promise<OpenedCohort> {
    const cohort = await db.transaction().execute((trx) => cohortStartRepository.startCohort(trx, cohortId))
    if (!cohort) return { ended: true, accountId: '', deadlineAt: 0, stages: [] }
    const { edges, outputs } = graphIn(cohort)
    const rows = await cohortRepository.readStages(db, cohortId)
    return {
      ended: false,
      accountId: cohort.account_id,
      taskId: cohort.task_id,
      deadlineAt: cohort.deadline_at.getTime(),
      stages: rows.map((row) => {
        const { quorum } = specOf(row)
        const from = edges.filter(({ to }) => to.stage_id === row.name).map((edge) => edge.from.stage_id)
        return {
          id: row.id,
          name: row.name,
          producers: [...new Set(from.filter((name) => name !== RUN_INPUT))],
          ...(quorum !== undefined && { quorum }),
          isOutput: outputs.some(({ stage_id }) => stage_id === row.name),
          isDone: !isOpenStage(row),
          ...(!isOpenStage(row) && row.status !== 'succeeded' && { isOff: true }),
        }
      }),
    }
  },

  /**
   * Chooses a node for a stage and calls it there. Safe to repeat because a stage that a node has claimed is left
   * as it is.
   */
  async callStage({
    cohortId,
    stageId,
    avoid,
  }: {
    cohortId: string
    stageId: string
    avoid: readonly string[]
  }): Promise<CallResult> {
    const place = await choosePlace({ db, now }, { cohortId, stageId, avoid })
    if (place.verdict !== 'place') return place
    const { nodeId } = place
    return db.transaction().execute(async (trx): Promise<CallResult> => {
      const locked = await cohortStageRepository.lockStage(trx, stageId)
      const cohort = await cohortRepository.readCohort(trx, cohortId)
      if (!locked || !isOpenStage(locked.stage) || !cohort || !cohortRepository.isOpenCohort(cohort))
        return { verdict: 'over' }
      const { stage } = locked
      if (!isToolKey(stage.model_key))
        await modelOrderRepository.orderModel(trx, { nodeId, modelKey: stage.model_key })
      const isFirst = cohort.status === 'preparing'
      const calledAt = await cohortStageRepository.callStage(trx, stage, { nodeId, isFirst })
      const name = await nodeLoadRepository.nodeName(trx, nodeId)
      return {
        verdict: 'called',
        nodeId,
        nodeName: name ?? nodeId,
        attempt: stage.attempt,
        ...(calledAt && { calledAt: calledAt.getTime() }),
        turn: turnOf(stage.account_id),
      }
    })
  },

  /**
   * Returns which of these stages there is a node for now, by id. Safe to repeat because it calls none of them; it notes what
   * the others wait for.
   */
  async findRoom({
    cohortId,
    stages,
  }: {
    cohortId: string
    stages: readonly { stageId: string; avoid: readonly string[] }[]
  }): Promise<string[]> {
    const found: string[] = []
    for (const { stageId, avoid } of stages) {
      const { verdict } = await choosePlace({ db, now }, { cohortId, stageId, avoid })
      if (verdict !== 'waits') found.push(stageId)
    }
    return found
  },

  /**
   * Takes stages from their nodes to call them again later, which counts as no attempt; those that run only if `evenRunning`.
   * Safe to repeat because what was put back is not at work.
   */
  async putBackStages({
    stageIds,
    evenRunning = false,
  }: {
    stageIds: readonly string[]
    evenRunning?: boolean
  }): Promise<PutBack> {
    const all: PutBack = { putBack: [], repeat: [] }
    for (const stageId of stageIds) {
      const repeat = await db.transaction().execute((trx) => putBack(trx, stageId, { evenRunning }))
      if (!repeat) continue
      all.putBack.push(stageId)
      all.repeat.push(...repeat)
    }
    return all
  },

  /** Decides what follows the failed attempt of a stage. Safe to repeat because each attempt is settled once. */
  settleStage(attempt: EndedAttempt): Promise<Settled> {
    return db.transaction().execute((trx) => settleStage(trx, attempt))
  },

  /** Ends stages whose result nobody waits for any more. Safe to repeat because a stage ends once. */
  async cancelStages({ stageIds }: { stageIds: readonly string[] }): Promise<void> {
    for (const id of stageIds) {
      await db.transaction().execute(async (trx) => {
        const locked = await cohortStageRepository.lockStage(trx, id)
        if (locked)
          await cohortStageRepository.giveUpStage(trx, locked, { status: 'cancelled', fault: undefined })
      })
    }
  },

  /** Ends a cohort, whatever is still at work. Safe to repeat because a cohort ends once. */
  async endCohort({ cohortId, ending }: { cohortId: string; ending: CohortEnding }): Promise<void> {
    await db.transaction().execute((trx) => endCohort(trx, cohortId, ending, now()))
    const cohort = await cohortRepository.readCohort(db, cohortId)
    if (cohort) await removeCohortFiles({ db, objects }, { accountId: cohort.account_id, cohortId })
  },
})

const graphIn = ({ request }: Pick<CohortRow, 'request'>): Graph => request as unknown as Graph

const specOf = ({ specification }: Pick<CohortStageRow, 'specification'>): GraphStage =>
  specification as unknown as GraphStage

/** Returns whether two stages have to be on one node: one names the other, or an edge between them is `local` alone. */
function areTied(
  { edges }: Pick<Graph, 'edges'>,
  a: Pick<CohortStageRow, 'name' | 'specification'>,
  b: Pick<CohortStageRow, 'name' | 'specification'>,
): boolean {
  if (specOf(a).placement?.same_node_as === b.name || specOf(b).placement?.same_node_as === a.name)
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

type Place = Exclude<CallResult, { verdict: 'called' }> | { verdict: 'place'; nodeId: string }

/** Returns the node of a stage: the planned one while it fits, otherwise the one on which it would end first. */
async function choosePlace(
  { db, now }: Pick<ControlDeps, 'db' | 'now'>,
  { cohortId, stageId, avoid }: { cohortId: string; stageId: string; avoid: readonly string[] },
): Promise<Place> {
  const cohort = await cohortRepository.readCohort(db, cohortId)
  const rows = await cohortRepository.readStages(db, cohortId)
  const stage = rows.find(({ id }) => id === stageId)
  if (!cohort || !cohortRepository.isOpenCohort(cohort) || !stage || !isOpenStage(stage))
    return { verdict: 'over' }
  const { constraints } = graphIn(cohort)
  const { model_config_id: _, ...spec } = specOf(stage)
  const graph = {
    ...graphIn(cohort),
    stages: [{ ...spec, endpoint_id: stage.endpoint_id, fallbacks: [] }],
    edges: [],
  }
  const { stageModels, nodes, nodeNames } = await readPlanInput(db, {
    graph,
    accountId: cohort.account_id,
    now: now(),
  })
  const model = stageModels.models.get(stage.name)
  const [refusal] = stageModels.reasons
  if (!model)
    return { verdict: 'refused', why: refusal?.message ?? 'its model is gone', attempt: stage.attempt }

  const taken = rows.filter(({ id, node_id }) => id !== stageId && node_id !== null)
  const { edges } = graphIn(cohort)
  const isThere = (nodeId: string | null) => nodes.some(({ node_id }) => node_id === nodeId)
  // One that is to be called again goes where this one is, and one that has ended on a lost node ties nobody any more.
  const tiedTo = taken.find(
    (other) =>
      other.status !== 'pending' &&
      (isOpenStage(other) || isThere(other.node_id)) &&
      areTied({ edges }, other, stage),
  )
  // As in a plan, stages that are tied together are beside each other even where all others are apart.
  const apart = constraints.spread
    ? taken.flatMap(({ node_id }) => (node_id === tiedTo?.node_id ? [] : node_id!))
    : []
  const costs = costsOf(spec, model, nodes, {
    accountId: cohort.account_id,
    ...(constraints.hardware && { hardware: constraints.hardware }),
    ...(constraints.node_accounts && { nodeAccounts: constraints.node_accounts }),
    avoid: new Set([...avoid, ...apart]),
    now: now().getTime(),
  })
  const ends = nodes.map(({ node_id, account_id }, i) => ({
    nodeId: node_id,
    isForeign: constraints.objective === 'cost' && account_id !== cohort.account_id ? 1 : 0,
    end:
      tiedTo && tiedTo.node_id !== node_id
        ? Infinity
        : costs.queueMs[i]! + costs.loadMs[i]! + costs.runMs[i]!,
  }))
  const able = ends
    .filter(({ end }) => end < Infinity)
    .toSorted((a, b) => a.isForeign - b.isForeign || a.end - b.end)
  const chosen = able.find(({ nodeId }) => nodeId === stage.planned_node_id) ?? able[0]
  if (!chosen) {
    // A node that has lost the stage is better than none, and the longer ago the better.
    if (avoid.length > 0) return choosePlace({ db, now }, { cohortId, stageId, avoid: avoid.slice(1) })
    const { excluded } = costs
    const reason =
      whyNoNode(spec.placement?.node_ids, { names: nodeNames, nodes, excluded }) ||
      `it is tied to the node of stage "${tiedTo?.name}"`
    const why = `a node that can run stage "${stage.name}": ${reason}`.slice(0, LONGEST_WHY)
    await cohortStartRepository.noteWaiting(db, stageId, why)
    return { verdict: 'waits', why }
  }
  if (chosen.nodeId !== stage.planned_node_id)
    await db.transaction().execute((trx) => cohortStartRepository.recordReplan(trx, stage, chosen.nodeId))
  return { verdict: 'place', nodeId: chosen.nodeId }
}
