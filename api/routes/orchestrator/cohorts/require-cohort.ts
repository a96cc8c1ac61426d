import * as cohortRepository from '../../../../db/repositories/cohorts/cohorts.ts'
import type { CohortFacts } from '../../../../db/tables/cohorts.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { Services } from '../../../services.ts'

/** Finds the cohort of an account's task; throws a 404 if the task does not belong to a cohort. */
export async function requireCohort(
  { db }: Pick<Services, 'db'>,
  accountId: string,
  taskId: string,
): Promise<CohortFacts> {
  const cohort = await cohortRepository.findCohortOfTask(db, { taskId, accountId })
  if (!cohort) throw new ApiError('not_found', 'there is no cohort with this task id')
  return cohort
}
