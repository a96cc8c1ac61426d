import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** An endpoint that serves a version. */
export interface ServingEndpoint {
  endpoint_id: string
  name: string
  status: string
  version_id: string
}

/** A version that was built on another one, or merged from it. */
export interface DerivedVersion {
  version_id: string
  name: string
  role: string
  of_version_id: string
  job_id: string | null
}

/** An open run or merge that starts from a version. */
export interface StartingJob {
  job_id: string
  job_name: string
  job_type: 'training' | 'merge'
  status: string
  of_version_id: string
}

export interface ModelUsers {
  endpoints: ServingEndpoint[]
  versions: DerivedVersion[]
  jobs: StartingJob[]
  others: { endpoints: number; versions: number; jobs: number }
}

type PerAccount<T> = T & { account_id: string }

/**
 * Lists what uses a model's versions: the account's own users, newest first, and the number of users in other accounts.
 */
export async function findModelUsers(
  db: Kysely<Database>,
  { accountId, modelId, most }: { accountId: string; modelId: string; most: number },
): Promise<ModelUsers> {
  const own = sql`own as materialized (
    select id, model_key, job_id from model_version where model_id = ${modelId} and account_id = ${accountId}
  )`
  const endpoints = await sql<PerAccount<ServingEndpoint>>`
    with ${own}
    select e.id as endpoint_id, e.name, e.status, e.version_id, e.account_id
    from own join endpoint e on e.model_key = own.model_key and e.version_id = own.id
    where e.deleted_at is null order by e.id desc`.execute(db)
  const versions = await sql<PerAccount<DerivedVersion>>`
    with ${own}, derived as (
      select v.id, 'base' as role, own.id as of_id from own join model_version v on v.base_model_version_id = own.id
      union
      select s.version_id, s.role, own.id from own join version_source s on s.source_version_id = own.id
    )
    select v.id as version_id, v.name, derived.role, derived.of_id as of_version_id, v.job_id, v.account_id
    from derived join model_version v on v.id = derived.id order by v.id desc, derived.role`.execute(db)
  const jobs = await sql<PerAccount<StartingJob>>`
    with ${own}, open as materialized (
      select id, job_name, job_type, status, account_id, base from training_run
      where status in ('pending', 'running') and deleted_at is null
    ), starting as (
      select open.id, own.id as of_id from own
      join open on open.base ->> 'version_id' = own.id::text or open.base ->> 'job_id' = own.job_id::text
      union
      select open.id, own.id from own join merge_source s on s.version_id = own.id join open on open.id = s.job_id
    )
    select open.id as job_id, job_name, job_type, status, of_id as of_version_id, account_id
    from starting join open on open.id = starting.id order by open.id desc`.execute(db)
  const mine = <T>({ rows }: { rows: PerAccount<T>[] }) =>
    rows.filter(({ account_id }) => account_id === accountId).slice(0, most)
  const others = ({ rows }: { rows: { account_id: string }[] }) =>
    rows.filter(({ account_id }) => account_id !== accountId).length
  return {
    endpoints: mine(endpoints),
    versions: mine(versions),
    jobs: mine(jobs),
    others: { endpoints: others(endpoints), versions: others(versions), jobs: others(jobs) },
  }
}
