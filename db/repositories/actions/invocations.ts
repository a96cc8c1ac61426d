import { type Kysely, sql, type Transaction } from 'kysely'
import type { TrainingRunStatus } from '../../../schemas/training-run.ts'
import type { Database } from '../../tables.ts'
import type { InvocationRow } from '../../tables/actions.ts'
import { insertInvocationEvents } from '../tasks/invocation-events.ts'

/** Stores the invocation of an operation in the transaction that creates its job. */
export async function insertJobInvocation(
  trx: Transaction<Database>,
  invocation: Pick<InvocationRow, 'id' | 'account_id' | 'slug' | 'kind' | 'created_at'> & { job_id: string },
): Promise<void> {
  await trx.insertInto('invocation').values(invocation).execute()
}

/** Finds an invocation of an account together with the state of its task or job. */
export function findInvocation(db: Kysely<Database>, { id, accountId }: { id: string; accountId: string }) {
  return db
    .selectFrom('invocation')
    .leftJoin('task', 'task.id', 'invocation.task_id')
    .leftJoin('training_run as job', 'job.id', 'invocation.job_id')
    .leftJoin('model_version as version', 'version.job_id', 'invocation.job_id')
    .selectAll('invocation')
    .select([
      'task.endpoint_id',
      'task.status as task_status',
      'task.result as task_result',
      'task.outputs as task_outputs',
      'task.error as task_error',
      'task.completed_at as task_completed_at',
      'job.status as job_status',
      'job.error_message as job_error',
      'job.completed_at as job_completed_at',
      'version.id as version_id',
    ])
    .where('invocation.id', '=', id)
    .where('invocation.account_id', '=', accountId)
    .executeTakeFirst()
}
export type InvocationView = NonNullable<Awaited<ReturnType<typeof findInvocation>>>

/** Returns the stored length of an invocation's result; 0 if there is none. */
export async function resultBytes(
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string },
): Promise<number> {
  const row = await db
    .selectFrom('invocation')
    .innerJoin('task', 'task.id', 'invocation.task_id')
    .select(sql<number>`octet_length(task.result)`.as('bytes'))
    .where('invocation.id', '=', id)
    .where('invocation.account_id', '=', accountId)
    .executeTakeFirst()
  return row?.bytes ?? 0
}

/** Ends a job's invocation, if it has one, in the transaction that ends the job, and writes its event. */
export async function endJobInvocation(
  trx: Transaction<Database>,
  jobId: string,
  jobStatus: Extract<TrainingRunStatus, 'completed' | 'failed' | 'cancelled'>,
  now: Date,
): Promise<void> {
  await sql`with ended_invocations as (
    update invocation set ended = true
    where job_id = ${jobId} and not ended
    returning id, account_id, ${now}::timestamptz as at,
      ${jobStatus === 'completed' ? 'succeeded' : 'failed'}::text as status
  ) ${sql.raw(insertInvocationEvents('ended_invocations'))}`.execute(trx)
}

/**
 * Ends invocations whose task or job was ended by a process running an earlier version, which doesn't know about
 * invocations; returns how many it ended. Safe to repeat, because an invocation ends only once.
 */
export async function endFinishedInvocations(db: Kysely<Database>, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`with finished as (
    select invocation.id, coalesce(task.completed_at, job.completed_at, now()) as at,
      case when task.status = 'succeeded' or job.status = 'completed' then 'succeeded' else 'failed' end as status
    from invocation
    left join task on task.id = invocation.task_id
    left join training_run job on job.id = invocation.job_id
    where not invocation.ended
      and (task.status in ('succeeded', 'failed') or job.status in ('completed', 'failed', 'cancelled'))
    limit ${limit}
    for update of invocation skip locked
  ), ended_invocations as (
    update invocation set ended = true
    from finished
    where invocation.id = finished.id and not invocation.ended
    returning invocation.id, invocation.account_id, finished.at, finished.status
  ) ${sql.raw(insertInvocationEvents('ended_invocations'))}`.execute(db)
  return Number(numAffectedRows ?? 0)
}
