import * as candidateTestRepository from '../../db/repositories/models/candidate-tests.ts'
import type { ModelVersionRow } from '../../db/tables/models.ts'
import { candidateTestStart } from '../../workflows/contract/starts.ts'
import type { Services } from '../services.ts'

type Candidate = Pick<
  ModelVersionRow,
  'id' | 'account_id' | 'model_key' | 'lifecycle_status' | 'lifecycle_note'
>

/**
 * Starts the test of a candidate that hasn't been tested. Does nothing for any other version, or if a test is in
 * progress.
 */
export async function startCandidateTest(
  { db, outbox }: Pick<Services, 'db' | 'outbox'>,
  version: Candidate,
): Promise<void> {
  if (version.lifecycle_status !== 'candidate' || version.lifecycle_note !== null) return
  await db
    .transaction()
    .execute((trx) =>
      candidateTestRepository.enqueueCandidateTest(trx, version.id, candidateTestStart(version)),
    )
  outbox.poke()
}
