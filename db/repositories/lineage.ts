import { type Kysely, sql } from 'kysely'
import type { Database } from '../tables.ts'

/** One version on the way back, with what it came out of. */
export interface LineageVersion {
  id: string
  name: string
  account_id: string
  model_config_id: string
  lifecycle_status: string
  base_model_version_id: string | null
  parent_job_id: string | null
  created_at: Date
  job_id: string | null
  job_type: 'training' | 'merge' | null
  job_name: string | null
  job_base: { type: string; repo_id?: string; revision?: string; uri?: string } | null
  job_base_model: string | null
  dataset_id: string | null
  dataset_name: string | null
  repo_id: string | null
  revision: string | null
}

/** One version that another was merged from. */
export interface LineageSource {
  version_id: string
  source_version_id: string
  role: string
  weight: number | null
}

/**
 * Everything the versions of a model were made of, however far back. Only what the account may use is walked into; runs
 * and datasets are told of its own versions alone.
 */
export async function walkLineage(
  db: Kysely<Database>,
  accountId: string,
  modelId: string,
): Promise<{ versions: LineageVersion[]; sources: LineageSource[] }> {
  const { rows: versions } = await sql<LineageVersion>`
    with recursive made_of as (
      select id as version_id, base_model_version_id as source_id
      from model_version where base_model_version_id is not null
      union all
      select version_id, source_version_id from version_source
    ), walked (id) as (
      select id from model_version where model_id = ${modelId} and account_id = ${accountId}
      union
      select source.id
      from walked
      join made_of on made_of.version_id = walked.id
      join model_version source on source.id = made_of.source_id
      where source.account_id = ${accountId} or source.visibility = 'public'
    )
    select version.id, version.name, version.account_id, version.model_config_id, version.lifecycle_status,
      version.base_model_version_id, version.parent_job_id, version.created_at,
      job.id as job_id, job.job_type, job.job_name, job.base as job_base,
      job.hyperparameters ->> 'base_model' as job_base_model,
      dataset.id as dataset_id, dataset.dataset_name, hub_model.repo_id, hub_model.revision
    from walked
    join model_version version on version.id = walked.id
    left join training_run job on job.id = version.job_id and job.account_id = ${accountId}
    left join dataset on dataset.id = version.dataset_id and dataset.account_id = ${accountId}
    left join hub_model on hub_model.version_id = version.id
    order by version.id desc
  `.execute(db)
  const ids = versions.map(({ id }) => id)
  const sources =
    ids.length === 0
      ? []
      : await db
          .selectFrom('version_source')
          .select(['version_id', 'source_version_id', 'role', 'weight'])
          .where('version_id', 'in', ids)
          .where('source_version_id', 'in', ids)
          .orderBy('version_id')
          .orderBy('position')
          .execute()
  return { versions, sources }
}
