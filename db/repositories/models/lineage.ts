import { type Kysely, sql } from 'kysely'
import type { LineageSource, LineageVersion } from '../../../domain/models/lineage.ts'
import type { Database } from '../../tables.ts'

/**
 * Returns everything that the versions of a model were made from, at any depth. The walk enters only versions that the
 * account may use, and shows runs and their inputs only for the account's own versions.
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
    select version.id, version.name, version.model_config_id, version.lifecycle_status,
      version.base_model_version_id,
      job.id as job_id, job.job_type, job.job_name, job.base as job_base,
      job.hyperparameters ->> 'base_model' as job_base_model, job.base_revision as job_base_revision,
      job.hyperparameters ->> 'method' as merge_method, job.metrics -> 'left_out_columns' as left_out_columns,
      parent.id as parent_id, parent.job_type as parent_type, parent.job_name as parent_name,
      version.dataset_id,
      case when dataset.account_id = ${accountId} or dataset.visibility = 'public'
        then dataset.dataset_name end as dataset_name,
      hub_model.repo_id, hub_model.revision
    from walked
    join model_version version on version.id = walked.id
    left join training_run job on job.id = version.job_id and job.account_id = ${accountId}
    left join training_run parent on parent.id = job.parent_job_id and parent.account_id = ${accountId}
    left join dataset on dataset.id = version.dataset_id
    left join hub_model on hub_model.version_id = version.id
    order by version.id desc
  `.execute(db)
  const ids = versions.map(({ id }) => id)
  if (ids.length === 0) return { versions, sources: [] }
  const { rows: sources } = await sql<LineageSource>`
    select version_id, role, source_version_id, null::jsonb as ref, position
    from version_source
    where version_id = any(${ids}::uuid[]) and source_version_id = any(${ids}::uuid[])
    union all
    select version.id, source.role, null, source.ref, source.position
    from model_version version
    join merge_source source on source.job_id = version.job_id and source.version_id is null
    where version.id = any(${ids}::uuid[]) and version.account_id = ${accountId}
    order by 1, position
  `.execute(db)
  return { versions, sources }
}
