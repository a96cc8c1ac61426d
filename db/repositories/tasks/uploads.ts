import { type Kysely, sql } from 'kysely'
import { taskFolder } from '../../../domain/object-keys.ts'
import type { Database } from '../../tables.ts'
import type { TaskOutputFile } from '../../tables/inference.ts'

/** Records that files can be PUT for a task, or for a stage, until a given time. */
export async function noteTaskUpload(
  db: Kysely<Database>,
  { taskId, accountId, until }: { taskId: string; accountId: string; until: Date },
): Promise<void> {
  await sql`
    insert into task_upload (task_id, account_id, signed_until) values (${taskId}, ${accountId}, ${until})
    on conflict (task_id) do update
      set signed_until = greatest(task_upload.signed_until, excluded.signed_until), swept_at = null`.execute(
    db,
  )
}

/** An ended task, or a stage of an ended cohort, whose folder may hold files that its result does not name. */
export interface UnsweptTask {
  id: string
  /** Ends in a slash. */
  folder: string
  kept: ReadonlySet<string>
}

/**
 * Returns ended tasks whose folders must be swept: failed tasks immediately, and every task (failed ones again) once
 * nothing more can be PUT into its folder.
 */
export async function unsweptTasks(db: Kysely<Database>, limit: number): Promise<UnsweptTask[]> {
  const { rows } = await sql<{ id: string; account_id: string; outputs: TaskOutputFile[] | null }>`
    select u.task_id as id, u.account_id, task.outputs
    from task_upload u
      left join cohort_stage on cohort_stage.id = u.task_id
      left join cohort on cohort.id = cohort_stage.cohort_id
      left join task on task.id = coalesce(cohort.task_id, u.task_id)
    where (task.id is null or task.status in ('succeeded', 'failed'))
      and (u.signed_until < now() or (u.swept_at is null and task.status is distinct from 'succeeded'))
    order by u.signed_until limit ${limit}`.execute(db)
  return rows.map(unswept)
}

const unswept = ({
  id,
  account_id,
  outputs,
}: {
  id: string
  account_id: string
  outputs: TaskOutputFile[] | null
}): UnsweptTask => ({
  id,
  folder: taskFolder({ accountId: account_id, taskId: id }),
  kept: new Set((outputs ?? []).map(({ object_key }) => object_key)),
})

/** Returns the stages of an ended cohort that could store files. */
export async function filesOfCohort(db: Kysely<Database>, cohortId: string): Promise<UnsweptTask[]> {
  const { rows } = await sql<{ id: string; account_id: string; outputs: TaskOutputFile[] | null }>`
    select s.id, s.account_id, task.outputs
    from cohort_stage s join cohort c on c.id = s.cohort_id join task on task.id = c.task_id
    where s.cohort_id = ${cohortId} and task.status in ('succeeded', 'failed')
      and exists (select 1 from task_upload u where u.task_id = s.id)`.execute(db)
  return rows.map(unswept)
}

/** Records that a task was swept; the sweep is final once nothing more can be PUT for the task. */
export async function noteTaskSwept(db: Kysely<Database>, taskId: string): Promise<void> {
  const { numAffectedRows } = await sql`
    delete from task_upload where task_id = ${taskId} and signed_until < now()`.execute(db)
  if (!numAffectedRows)
    await sql`update task_upload set swept_at = now() where task_id = ${taskId}`.execute(db)
}
