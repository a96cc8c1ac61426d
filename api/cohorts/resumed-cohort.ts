import type { Transaction } from 'kysely'
import * as cohortRepository from '../../db/repositories/cohorts/cohorts.ts'
import type { StoredStageResult } from '../../db/repositories/cohorts/cohorts.ts'
import type { Database } from '../../db/tables.ts'
import type { CohortFacts } from '../../db/tables/cohorts.ts'
import { getOrThrow } from '../../domain/at.ts'
import { canonicalJson } from '../../domain/canonical-json.ts'
import { listed } from '../../domain/cohorts/event-data.ts'
import { takeOver } from '../../domain/cohorts/take-over.ts'
import { isByValue } from '../../domain/cohorts/values.ts'
import { ApiError, invalid } from '../../domain/errors.ts'
import type { RunRequest } from '../../schemas/cohorts/cohort.ts'
import { COHORT_LIMITS } from '../../schemas/cohorts/plan.ts'
import type { PlannedRequest } from './plan-request.ts'

/** An earlier cohort whose finished stages are reused. */
export interface Source {
  cohort: CohortFacts
  /** The reused stages, by name. */
  stages: Map<string, StoredStageResult>
  /** Names of stages that need not run, because their consumers had continued without them. */
  spare: ReadonlySet<string>
  /** Names of the reused stages that were already paid for. */
  paid: ReadonlySet<string>
  /** Why no stage is reused; absent if any is. */
  reason?: string
}

/** Finds what a run reuses from the cohort in its `resume_of`; undefined if it has no `resume_of`. */
export async function resumedCohort(
  trx: Transaction<Database>,
  { accountId, body }: { accountId: string; body: RunRequest },
  { requestedGraph, handOvers }: Pick<PlannedRequest, 'requestedGraph' | 'handOvers'>,
): Promise<Source | undefined> {
  if (body.resume_of === undefined) return undefined
  const cohort =
    (await cohortRepository.findCohort(trx, { id: body.resume_of, accountId })) ??
    (await cohortRepository.findCohortOfTask(trx, { taskId: body.resume_of, accountId }))
  if (!cohort) throw invalid(['body', 'resume_of'], 'there is no such cohort')
  if (cohortRepository.isOpenCohort(cohort)) {
    const message = 'the cohort to resume is still running; wait for it to end, or cancel it'
    throw new ApiError('conflict', message, { details: { reason: 'already_running' } })
  }
  const rows = await cohortRepository.readResults(trx, cohort.id, COHORT_LIMITS.valueBytes)
  // A failed cohort's files are deleted.
  const kept = rows.filter(({ outputs }) => !outputs || cohort.status === 'succeeded')
  const none = { cohort, stages: new Map(), spare: new Set<string>(), paid: new Set<string>() }
  if (kept.length === 0) return { ...none, reason: 'its stage results are no longer stored' }
  const input = await cohortRepository.readRunInput(trx, cohort.id)
  if (canonicalJson(input) !== canonicalJson(body.input))
    return { ...none, reason: 'its input was different' }
  const then = await cohortRepository.readStages(trx, cohort.id)
  const earlier = {
    graph: await cohortRepository.readGraph(trx, cohort.id),
    kept: new Set(kept.map(({ name }) => name)),
    missing: new Set(then.flatMap(({ name, status }) => (status === 'succeeded' ? [] : name))),
  }
  const { standing, spare } = takeOver(requestedGraph, earlier, (edge) =>
    isByValue(getOrThrow(handOvers, edge).kind),
  )
  if (standing.size === 0)
    return {
      ...none,
      reason:
        'each of its finished stages has changed, depends on a stage that runs again, or hands over data that only its node held, such as embeddings or a KV cache',
    }
  const taken = kept.filter(({ name }) => standing.has(name))
  const elsewhere = await cohortRepository.paidElsewhere(trx, taken.map(madeAs))
  const paid = taken.filter((row) => cohort.status === 'succeeded' || elsewhere.has(madeAs(row)))
  const names = new Set(paid.map(({ name }) => name))
  return { cohort, stages: new Map(taken.map((row) => [row.name, row])), spare, paid: names }
}

/** Returns the id of the stage that originally produced a result. */
export const madeAs = ({ id, taken_from }: Pick<StoredStageResult, 'id' | 'taken_from'>): string =>
  taken_from ?? id

/** Returns the data for the event that reports a resumed cohort. */
export function takenOver({ cohort, stages, reason }: Source): Record<string, unknown> {
  const { shown, ...left } = listed([...stages.keys()])
  return { resume_of: cohort.id, stages: shown, ...left, ...(reason !== undefined && { reason }) }
}
