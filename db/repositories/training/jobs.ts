import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { storable, storableJson } from '../../../domain/storable-text.ts'
import { sourcesOf } from '../../../domain/training/training-run.ts'
import type { RunProgress, TrainingRunStatus } from '../../../schemas/training-run.ts'
import { type SortedPage, sortedPage } from '../../keyset.ts'
import { type CutPage, readCutPage } from '../../page-bytes.ts'
import type { Database } from '../../tables.ts'
import type { NewJob, JobRow } from '../../tables/training.ts'
import { takeLease } from '../nodes/leases.ts'

/**
 * The columns of a run that callers see, without those that a trainer reports at the end, which may be several
 * megabytes.
 */
const SHOWN = [
  'id',
  'job_type',
  'job_name',
  'status',
  'model_config_id',
  'dataset_id',
  'hyperparameters',
  'operating_mode',
  'hardware_preference',
  'base',
  'parent_job_id',
  'base_revision',
  'attempt',
  'error_message',
  'waiting_reason',
  'waiting_since',
  'paused_at',
  'created_at',
  'started_at',
  'completed_at',
  'progress',
] as const satisfies (keyof JobRow)[]
/** A run in a list; its metrics don't include the losses per epoch. */
export type ListedJob = Pick<JobView, (typeof SHOWN)[number] | 'version_id'> & Pick<JobRow, 'metrics'>

const FACTS = [
  ...SHOWN,
  'account_id',
  'task_queue',
  'config_digest',
  'deleted_at',
] as const satisfies (keyof JobRow)[]

/** A run without the metrics and the description that its trainer reported. */
export type JobFacts = Pick<JobRow, (typeof FACTS)[number]>

/** A run as its account sees it, with the version that it created. */
export type JobView = JobFacts & { version_id: string | null }

const OPEN_STATUSES = ['pending', 'running'] as const satisfies TrainingRunStatus[]
/** A run that was cancelled while paused is no longer paused. */
const IS_PAUSED = sql<boolean>`(training_run.paused_at is not null and training_run.status in ('pending', 'running'))`

export function insertJob(trx: Transaction<Database>, run: NewJob): Promise<JobFacts> {
  return trx.insertInto('training_run').values(run).returning(FACTS).executeTakeFirstOrThrow()
}

const joined = (db: Kysely<Database>) =>
  db
    .selectFrom('training_run')
    .leftJoin('model_version', 'model_version.job_id', 'training_run.id')
    .select('model_version.id as version_id')
    .where('training_run.deleted_at', 'is', null)

/** Finds a run of this account that has not been deleted. */
export function findOwnJob(
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<JobView | undefined> {
  return joined(db)
    .select(FACTS.map((column) => `training_run.${column}` as const))
    .where('training_run.account_id', '=', accountId)
    .where('training_run.id', '=', id)
    .executeTakeFirst()
}

/** Finds a job of any account, deleted or not. */
export function findJob(db: Kysely<Database>, id: string): Promise<JobFacts | undefined> {
  return db.selectFrom('training_run').select(FACTS).where('id', '=', id).executeTakeFirst()
}

/** Returns the metrics that a run's trainer reported; null until the run ends. */
export async function findMetrics(db: Kysely<Database>, id: string): Promise<JobRow['metrics']> {
  const row = await db.selectFrom('training_run').select('metrics').where('id', '=', id).executeTakeFirst()
  return row?.metrics ?? null
}

/** Returns the trainer's description of a run's model; null until the run ends. */
export async function findOutput(db: Kysely<Database>, id: string): Promise<JobRow['output']> {
  const row = await db.selectFrom('training_run').select('output').where('id', '=', id).executeTakeFirst()
  return row?.output ?? null
}

const METRICS = sql<JobRow['metrics']>`training_run.metrics - 'epochs'`
const BYTES = sql<number>`(octet_length(training_run.hyperparameters::text) + coalesce(octet_length((${METRICS})::text), 0))`

/** Returns a page of an account's runs, newest first. */
export function listJobs(
  db: Kysely<Database>,
  accountId: string,
  {
    status,
    paused,
    ...page
  }: SortedPage & { status: TrainingRunStatus | undefined; paused: boolean | undefined },
): Promise<CutPage<ListedJob>> {
  let query = joined(db)
    .select(SHOWN.map((column) => `training_run.${column}` as const))
    .select([METRICS.as('metrics'), BYTES.as('bytes')])
  if (status !== undefined) query = query.where('training_run.status', '=', status)
  if (paused !== undefined) query = query.where(paused ? IS_PAUSED : sql<boolean>`not ${IS_PAUSED}`)
  return readCutPage(db, sortedPage(query, { table: 'training_run', accountId, name: 'job_name' }, page))
}

/**
 * Locks a run. Transactions that change a run together with its lease take this lock first, so
 * that they never deadlock.
 */
export function lockJob(trx: Transaction<Database>, id: string): Promise<JobFacts | undefined> {
  return trx
    .selectFrom('training_run')
    .select(FACTS)
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/** The fields of a run that may change with its status. */
export interface JobChange {
  error_message?: string | null
  completed_at?: Date
}

/** Moves a run as `domain/training/training-run.ts` allows; `undefined` means that another writer came first. */
export function moveJob(
  db: Kysely<Database>,
  id: string,
  to: TrainingRunStatus,
  change: JobChange = {},
): Promise<JobFacts | undefined> {
  return db
    .updateTable('training_run')
    .set({ status: to, ...change })
    .where('id', '=', id)
    .where('status', 'in', sourcesOf(to))
    .returning(FACTS)
    .executeTakeFirst()
}

/** Begins an attempt: the first one starts the run, later ones leave it running. */
export async function beginAttempt(
  trx: Transaction<Database>,
  id: string,
  { attempt, now }: { attempt: number; now: Date },
): Promise<void> {
  await trx
    .updateTable('training_run')
    .set({
      status: 'running',
      attempt,
      error_message: null,
      progress: null,
      waiting_reason: null,
      waiting_since: null,
      started_at: sql<Date>`coalesce(started_at, ${now})`,
    })
    .where('id', '=', id)
    .where('status', 'in', OPEN_STATUSES)
    .execute()
}

/**
 * Returns the quota of an account and locks it, so that runs created concurrently are counted one after the other. A
 * paused run counts until its node has released it.
 */
export async function lockTrainingQuota(
  trx: Transaction<Database>,
  accountId: string,
  except?: string,
): Promise<{ quota: number; open: number }> {
  const account = await trx
    .selectFrom('account')
    .select('training_quota')
    .where('id', '=', accountId)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
  const { open } = await trx
    .selectFrom('training_run')
    .select((eb) => eb.fn.countAll<number>().as('open'))
    .where('account_id', '=', accountId)
    .where('status', 'in', OPEN_STATUSES)
    .where('deleted_at', 'is', null)
    .$call((qb) => (except === undefined ? qb : qb.where('id', '!=', except)))
    .where(sql<boolean>`(paused_at is null or exists (
      select 1 from lease where kind = 'job' and subject_id = training_run.id and state = 'active'))`)
    .executeTakeFirstOrThrow()
  return { quota: account.training_quota, open }
}

const rank = sql<number>`case operating_mode when 'performance' then 1 when 'balanced' then 3 else 5 end`

/** Counts the jobs that are waiting for the same hardware and precede this one. */
export async function countAhead(
  db: Kysely<Database>,
  { id, task_queue, priority }: { id: string; task_queue: string; priority: number },
): Promise<number> {
  const { ahead } = await db
    .selectFrom('training_run')
    .select((eb) => eb.fn.countAll<number>().as('ahead'))
    .where('task_queue', '=', task_queue)
    .where('status', '=', 'pending')
    .where('paused_at', 'is', null)
    .where((eb) => eb.or([eb(rank, '<', priority), eb.and([eb(rank, '=', priority), eb('id', '<', id)])]))
    .executeTakeFirstOrThrow()
  return ahead
}

/**
 * Returns whether a low-priority run must free its slot on a node. The youngest such runs yield, one for each other run
 * that has waited for this hardware longer than it takes to fill a free slot. A dedicated node makes room only for its
 * own account.
 */
export async function mustYield(
  db: Kysely<Database>,
  { id, task_queue, nodeId }: Pick<JobRow, 'id' | 'task_queue'> & { nodeId: string },
  patienceS = 3,
): Promise<boolean> {
  const held = (where: RawBuilder<boolean>) => sql<boolean>`exists (
    select 1 from lease join node holder on holder.id = lease.node_id
    where lease.kind = 'job' and lease.subject_id = training_run.id and lease.state = 'active' and ${where})`
  const { rows } = await sql<{ waiting: number; younger: number }>`
    select
      count(*) filter (where operating_mode <> 'eco' and paused_at is null and not ${held(sql`true`)}
        and training_run.created_at < now() - make_interval(secs => ${patienceS}))::int as waiting,
      count(*) filter (where operating_mode = 'eco' and ${held(sql`holder.sharing = own.sharing`)} and training_run.id > ${id}::uuid)::int as younger
    from training_run join node own on own.id = ${nodeId}::uuid
    where (own.sharing = 'shared' or training_run.account_id = own.account_id)
      and training_run.task_queue = ${task_queue} and training_run.status in ('pending', 'running')
  `.execute(db)
  const [{ waiting, younger } = { waiting: 0, younger: 0 }] = rows
  return younger < waiting
}

/** Stores the progress of an attempt; reports from earlier attempts are ignored. */
export async function recordProgress(
  db: Kysely<Database>,
  { id, attempt }: Pick<JobRow, 'id' | 'attempt'>,
  progress: RunProgress,
): Promise<void> {
  await db
    .updateTable('training_run')
    .set({ progress: JSON.stringify(progress) })
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', '=', 'running')
    .execute()
}

/** Stores the metrics and the description that the trainer reported. */
export async function recordResult(
  trx: Transaction<Database>,
  id: string,
  { metrics, output }: { metrics: object; output: object },
): Promise<void> {
  await trx
    .updateTable('training_run')
    .set({ metrics: storableJson(metrics), output: storableJson(output), error_message: null })
    .where('id', '=', id)
    .where('status', 'in', OPEN_STATUSES)
    .execute()
}

/** Stores the error of the last attempt; callers see it if the run fails. */
export async function recordFailure(trx: Transaction<Database>, id: string, message: string): Promise<void> {
  await trx
    .updateTable('training_run')
    .set({ error_message: storable(message) })
    .where('id', '=', id)
    .where('status', 'in', OPEN_STATUSES)
    .execute()
}

/** Marks a locked run as deleted and removes its records; the row stays, because models may refer to it as their origin. */
export async function deleteJob(trx: Transaction<Database>, id: string, now: Date): Promise<void> {
  // This waits for a file that is being moved into place, which is then deleted with the others.
  await takeLease(trx, 'job', id, 'revoked')
  await trx.updateTable('training_run').set({ deleted_at: now }).where('id', '=', id).execute()
  for (const table of [
    'job_log',
    'job_log_size',
    'job_epoch',
    'job_event',
    'job_checkpoint',
    'artifact',
    'merge_source',
  ] as const) {
    await trx.deleteFrom(table).where('job_id', '=', id).execute()
  }
}
