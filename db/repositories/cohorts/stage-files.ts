import type { Kysely } from 'kysely'
import type { StageFile } from '../../../domain/cohorts/stages/files.ts'
import type { Database } from '../../tables.ts'
import type { LeaseRow } from '../../tables/nodes.ts'

/** Returns the files that stages of an open cohort have produced, for the holder of the lease of one of its stages. */
export async function filesForStage(
  db: Kysely<Database>,
  { subject_id, account_id }: Pick<LeaseRow, 'subject_id' | 'account_id'>,
): Promise<StageFile[]> {
  const rows = await db
    .selectFrom('cohort_stage as own')
    .innerJoin('cohort_stage as made', 'made.cohort_id', 'own.cohort_id')
    .select('made.outputs')
    .where('own.id', '=', subject_id)
    .where('own.account_id', '=', account_id)
    .where('made.account_id', '=', account_id)
    .where('made.status', '=', 'succeeded')
    .where('made.outputs', 'is not', null)
    .execute()
  return rows.flatMap(({ outputs }) => outputs ?? [])
}
