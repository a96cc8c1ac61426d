import { promiseCandidateTest } from '../../db/repositories/models/candidate-tests.ts'
import type { ModelVersionRow } from '../../db/tables/models.ts'
import { candidateTestStart } from '../../workflows/contract/starts.ts'
import type { Services } from '../services.ts'

type Candidate = Pick<
  ModelVersionRow,
  'id' | 'account_id' | 'model_key' | 'lifecycle_status' | 'lifecycle_note'
>

/** Has a candidate tested that nobody has tested yet; any other is left alone, and so is a test under way. */
export async function startCandidateTest(
  { db, starts }: Pick<Services, 'db' | 'starts'>,
  version: Candidate,
): Promise<void> {
  if (version.lifecycle_status !== 'candidate' || version.lifecycle_note !== null) return
  await db.transaction().execute((trx) => promiseCandidateTest(trx, version.id, candidateTestStart(version)))
  starts.nudge()
}
