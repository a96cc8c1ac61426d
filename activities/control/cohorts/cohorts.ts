import { setImmediate as nextTurn } from 'node:timers/promises'
import * as cohortRepository from '../../../db/repositories/cohorts/cohorts.ts'
import { type CohortEnding, endCohort } from '../../../db/repositories/cohorts/endings.ts'
import * as cohortStageRepository from '../../../db/repositories/cohorts/stages.ts'
import * as cohortStartRepository from '../../../db/repositories/cohorts/starts.ts'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import { RUN_INPUT } from '../../../domain/cohorts/graph.ts'
import { isOpenStage } from '../../../domain/cohorts/outcome.ts'
import { isToolKey } from '../../../domain/tools/catalog.ts'
import { turnKeyOf } from '../../../platform/turn-key.ts'
import type { ControlDeps } from '../deps.ts'
import { removeCohortFiles } from './cohort-files.ts'
import { choosePlace, type PlacementFacts, noteCall, type StagePlacement, readLook } from './places.ts'
import { putBack } from './put-back.ts'
import { type EndedAttempt, settleStage, type StageVerdict } from './settle-stage.ts'

/** The part of a stage that the workflow needs. It is small, because the history stores it. */
export interface StageOutline {
  id: string
  name: string
  /** The names of the stages that this one waits for. */
  producers: string[]
  quorum?: number
  /** True when the stage's result is an output of the cohort, or part of one. */
  isOutput: boolean
  isDone: boolean
  /** True when the stage ended without a result. */
  isOff?: boolean
  /** The first call of a stage without producers. Absent from older histories. */
  called?: CallResult | undefined
}

/** The state of a cohort when its workflow starts. */
export interface OpenedCohort {
  ended: boolean
  accountId: string
  /** Absent from older histories. */
  taskId?: string
  /** Epoch milliseconds. */
  deadlineAt: number
  stages: StageOutline[]
}

export type CallResult =
  /**
   * `calledAt` (epoch milliseconds) distinguishes repeated calls for the same attempt; absent if the node has already
   * started the stage.
   */
  | {
      verdict: 'called'
      nodeId: string
      nodeName: string
      attempt: number
      calledAt?: number
      /** Identifies the account when accounts take turns on the node. Workers before 0.13 do not return it. */
      turn?: string
    }
  | Exclude<StagePlacement, { verdict: 'place' }>

/** Stage ids: the stages that were put back, and the producers that have to run again for them. */
export interface RequeuedStages {
  putBack: string[]
  repeat: string[]
}

/**
 * A lookup that exceeds this returns what it has found so far, and the workflow makes the remaining first calls. The
 * activity's timeout is ten seconds, and all other work in its cohort waits for it.
 */
const LOOKUP_TIMEOUT_MS = 4_000
/** The workflow calls any further first stages one by one. */
const MAX_FIRST_CALLS = 8

const ENDED: OpenedCohort = { ended: true, accountId: '', deadlineAt: 0, stages: [] }

/** Chooses a node for a stage from the facts in `look`, and calls the stage there. */
async function callByLook(
  db: ControlDeps['db'],
  look: PlacementFacts | undefined,
  { stageId, avoid }: { stageId: string; avoid: readonly string[] },
): Promise<CallResult> {
  const place: StagePlacement = look ? choosePlace(look, { stageId, avoid }) : { verdict: 'over' }
  if (place.verdict === 'waits') await cohortStartRepository.noteWaiting(db, [{ stageId, why: place.why }])
  if (place.verdict !== 'place') return place
  const { nodeId } = place
  if (place.isMoved)
    await db.transaction().execute((trx) => cohortStartRepository.recordReplan(trx, place.stage, nodeId))
  return db.transaction().execute(async (trx): Promise<CallResult> => {
    const locked = await cohortStageRepository.lockStage(trx, stageId)
    const cohort = locked && (await cohortRepository.readCohort(trx, locked.stage.cohort_id))
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
      turn: turnKeyOf(stage.account_id),
    }
  })
}

export const createCohortActivities = ({ db, objects, now }: ControlDeps) => ({
  /**
   * Starts a cohort, calls the stages without producers, and returns its graph. Safe to repeat because the row changes
   * state only once, and calling a stage twice is harmless.
   */
  async openCohort({ cohortId }: { cohortId: string }): Promise<OpenedCohort> {
    const cohort = await db.transaction().execute((trx) => cohortStartRepository.startCohort(trx, cohortId))
    if (!cohort) return ENDED
    const { edges, outputs } = cohort.outline
    const incoming = Map.groupBy(
      edges.filter(({ from }) => from.stage_id !== RUN_INPUT),
      ({ to }) => to.stage_id,
    )
    const isFirst = ({ name }: { name: string }) => !incoming.has(name)
    const began = now()
    const look = await readLook(db, { cohortId, isAsked: isFirst, now: began })
    if (!look) return ENDED
    const called = new Map<string, CallResult>()
    for (const { id } of look.stages.filter((row) => isOpenStage(row) && isFirst(row))) {
      if (called.size >= MAX_FIRST_CALLS || now().getTime() - began.getTime() > LOOKUP_TIMEOUT_MS) break
      const place = await callByLook(db, look, { stageId: id, avoid: [] })
      called.set(id, place)
      // Later stages may have to share this node, or avoid it.
      if (place.verdict === 'called') noteCall(look, id, place.nodeId)
    }
    return {
      ended: false,
      accountId: cohort.account_id,
      taskId: cohort.task_id,
      deadlineAt: cohort.deadline_at.getTime(),
      stages: look.stages.map((row) => {
        const { quorum } = row.outline
        const first = called.get(row.id)
        return {
          id: row.id,
          name: row.name,
          producers: [...new Set((incoming.get(row.name) ?? []).map(({ from }) => from.stage_id))],
          ...(first && { called: first }),
          ...(quorum !== undefined && { quorum }),
          isOutput: outputs.some(({ stage_id }) => stage_id === row.name),
          isDone: !isOpenStage(row),
          ...(!isOpenStage(row) && row.status !== 'succeeded' && { isOff: true }),
        }
      }),
    }
  },

  /**
   * Chooses a node for a stage and calls it there. Safe to repeat because a stage that a node has already claimed is
   * left alone.
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
    const look = await readLook(db, { cohortId, isAsked: ({ id }) => id === stageId, now: now() })
    return callByLook(db, look, { stageId, avoid })
  },

  /**
   * Returns the ids of the stages that can be placed now, and records what the others are waiting for. Safe to repeat
   * because it calls none of them. A lookup that takes too long leaves the remaining stages for the next one.
   */
  async findRoom({
    cohortId,
    stages,
  }: {
    cohortId: string
    stages: readonly { stageId: string; avoid: readonly string[] }[]
  }): Promise<string[]> {
    const ids = stages.map(({ stageId }) => stageId)
    const began = now()
    const requestedIds = new Set(ids)
    const look = await readLook(db, { cohortId, isAsked: ({ id }) => requestedIds.has(id), now: began })
    if (!look) return ids
    const found = new Set<string>()
    const notes: cohortStartRepository.WaitingNote[] = []
    // Start at a random stage, so that lookups cut short still reach every stage eventually.
    const first = Math.floor(Math.random() * stages.length)
    for (const stage of [...stages.slice(first), ...stages.slice(0, first)]) {
      const { stageId } = stage
      const place = choosePlace(look, stage)
      if (place.verdict === 'waits') notes.push({ stageId, why: place.why })
      else found.add(stageId)
      await nextTurn()
      if (now().getTime() - began.getTime() > LOOKUP_TIMEOUT_MS) break
    }
    await cohortStartRepository.noteWaiting(db, notes)
    return ids.filter((id) => found.has(id))
  },

  /**
   * Takes stages back from their nodes so they can be called again later; this doesn't count as an attempt. Running
   * stages are included only if `evenRunning`. Safe to repeat because a stage that was put back is no longer running.
   */
  async putBackStages({
    stageIds,
    evenRunning = false,
  }: {
    stageIds: readonly string[]
    evenRunning?: boolean
  }): Promise<RequeuedStages> {
    const all: RequeuedStages = { putBack: [], repeat: [] }
    for (const stageId of stageIds) {
      const repeat = await db.transaction().execute((trx) => putBack(trx, stageId, { evenRunning }))
      if (!repeat) continue
      all.putBack.push(stageId)
      all.repeat.push(...repeat)
    }
    return all
  },

  /** Decides what happens after a stage's attempt fails. Safe to repeat because each attempt is settled only once. */
  settleStage(attempt: EndedAttempt): Promise<StageVerdict> {
    return db.transaction().execute((trx) => settleStage(trx, attempt))
  },

  /** Ends stages whose results are no longer needed. Safe to repeat because a stage ends only once. */
  async cancelStages({ stageIds }: { stageIds: readonly string[] }): Promise<void> {
    for (const id of stageIds) {
      await db.transaction().execute(async (trx) => {
        const locked = await cohortStageRepository.lockStage(trx, id)
        if (locked)
          await cohortStageRepository.giveUpStage(trx, locked, { status: 'cancelled', fault: undefined })
      })
    }
  },

  /** Ends a cohort, including any stages that are still running. Safe to repeat because a cohort ends only once. */
  async endCohort({ cohortId, ending }: { cohortId: string; ending: CohortEnding }): Promise<void> {
    await db.transaction().execute((trx) => endCohort(trx, cohortId, ending, now()))
    const cohort = await cohortRepository.readCohort(db, cohortId)
    if (cohort) await removeCohortFiles({ db, objects }, { accountId: cohort.account_id, cohortId })
  },
})
