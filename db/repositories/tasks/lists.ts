import { type Kysely, sql } from 'kysely'
import { firstIdAt } from '../../../domain/uuid.ts'
import type { CohortState } from '../../../schemas/cohorts/vocabulary.ts'
import { type SortedPage, sortedPage } from '../../keyset.ts'
import type { Database } from '../../tables.ts'
import type { TaskRow } from '../../tables/inference.ts'

const LISTED = [
  'id',
  'endpoint_id',
  'surface',
  'status',
  'model_state',
  'error',
  'key_id',
  'tokens_in',
  'tokens_out',
  'price_micro',
  'inference_time_ms',
  'created_at',
  'started_at',
  'completed_at',
] as const

/** A task without its input and result. */
export type ListedTaskRow = Pick<TaskRow, (typeof LISTED)[number]> & { cohort_status: CohortState | null }

export interface TaskFilter {
  status: TaskRow['status'] | undefined
  endpointId: string | undefined
  surface: TaskRow['surface'] | undefined
  /** Tasks created at or after this time. */
  since: Date | undefined
  /** Tasks created before this time. */
  until: Date | undefined
}

/** Lists a page of the tasks of an account. */
export const listTasks = (...of: Parameters<typeof tasksQuery>): Promise<ListedTaskRow[]> =>
  tasksQuery(...of).execute()

/** Returns the query for a page. Ids sort by creation time, so time bounds become id bounds. */
export function tasksQuery(
  db: Kysely<Database>,
  accountId: string,
  { status, endpointId, surface, since, until, ...page }: TaskFilter & SortedPage,
) {
  let query = db
    .selectFrom('task')
    .select(LISTED)
    .select(
      sql<CohortState | null>`case surface when 'cohort'
        then (select cohort.status from cohort where cohort.task_id = task.id) end`.as('cohort_status'),
    )
  if (status !== undefined) query = query.where('status', '=', status)
  if (endpointId !== undefined) query = query.where('endpoint_id', '=', endpointId)
  if (surface !== undefined) query = query.where('surface', '=', surface)
  if (since !== undefined) query = query.where('id', '>=', firstIdAt(since))
  if (until !== undefined) query = query.where('id', '<', firstIdAt(until))
  return sortedPage(query, { table: 'task', accountId }, page)
}
