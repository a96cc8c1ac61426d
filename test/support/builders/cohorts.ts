import type { Insertable, Kysely, Selectable } from 'kysely'
import type { Database } from '../../../db/tables.ts'
import type { CohortTable } from '../../../db/tables/cohorts.ts'
import { newId } from '../../../domain/ids.ts'
import { buildHeldTask } from './build-endpoint.ts'

/** Builds a running cohort of an account, with its task. */
export async function buildCohort(
  db: Kysely<Database>,
  accountId: string,
  overrides: Partial<Insertable<CohortTable>> = {},
): Promise<Selectable<CohortTable>> {
  return db
    .insertInto('cohort')
    .values({
      id: newId(),
      task_id: await buildHeldTask(db, accountId),
      account_id: accountId,
      user_id: 'somebody',
      plan_id: newId(),
      request: '{}',
      status: 'running',
      input: '{}',
      labels: '{}',
      deadline_at: new Date(Date.now() + 3_600_000),
      estimated_latency_ms: 1_000,
      critical_path: '[]',
      ...overrides,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}
