import type { Kysely, Transaction } from 'kysely'
import type { TrainingRunStatus } from '../../../schemas/training-run.ts'
import type { Database } from '../../tables.ts'
import type { InvocationRow } from '../../tables/actions.ts'
import { insertEvents } from '../webhooks/events.ts'

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
      'task.status as task_status',
      'task.result as task_result',
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

/** Writes the terminal event of a job's invocation, if it has one, in the transaction that ends the job. */
export async function insertJobInvocationEvent(
  trx: Transaction<Database>,
  jobId: string,
  jobStatus: Extract<TrainingRunStatus, 'completed' | 'failed' | 'cancelled'>,
  now: Date,
): Promise<void> {
  const invocation = await trx
    .selectFrom('invocation')
    .select(['id', 'account_id'])
    .where('job_id', '=', jobId)
    .executeTakeFirst()
  if (!invocation) return
  const status = jobStatus === 'completed' ? 'completed' : 'failed'
  await insertEvents(
    trx,
    [
      {
        accountId: invocation.account_id,
        type: `invocation.${status}`,
        resource: { id: invocation.id, object: 'invocation', status },
        resourceUrl: `/api/builder/v1/invocations/${invocation.id}`,
      },
    ],
    now,
  )
}
