import { filesOfCohort } from '../../../db/repositories/tasks/uploads.ts'
import { cohortFolder } from '../../../domain/object-keys.ts'
import type { ControlDeps } from '../deps.ts'
import { removeUnnamed } from '../housekeeping/unnamed-files.ts'

/**
 * Removes the payloads that an ended cohort handed over through the store, and the stage files that its result does not
 * reference.
 */
export async function removeCohortFiles(
  { db, objects }: Pick<ControlDeps, 'db' | 'objects'>,
  cohort: { accountId: string; cohortId: string },
): Promise<void> {
  await objects.deletePrefix(cohortFolder(cohort))
  for (const stage of await filesOfCohort(db, cohort.cohortId)) await removeUnnamed(objects, stage)
}
