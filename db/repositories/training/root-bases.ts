import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** The origin of a model's chain of bases. */
export interface RootBase {
  /** Null for an address in the object store, which is private. */
  name: string | null
  /** The category of the hub import, if the chain begins with one. */
  category: string | null
}

/**
 * Finds the start of a version's chain of bases: the repository that it was imported or downloaded from, or the config
 * that trained it from scratch.
 */
export async function findRootBase(db: Kysely<Database>, versionId: string): Promise<RootBase> {
  const { rows } = await sql<RootBase>`
    with recursive chain as (
      select id, base_model_version_id, job_id, model_config_id, 0 as depth
      from model_version where id = ${versionId}
      union all
      select base.id, base.base_model_version_id, base.job_id, base.model_config_id, chain.depth + 1
      from chain join model_version base on base.id = chain.base_model_version_id
    ), root as (
      select * from chain order by depth desc limit 1
    ), fetched as (
      -- A run names its repository itself; of a merge the base counts, or the first model without one.
      select case when job.job_type = 'merge' then source.ref
        when job.base ->> 'type' = 'storage' then job.base
        when job.hyperparameters ->> 'base_model' is not null
          then jsonb_build_object('type', 'hf', 'repo_id', job.hyperparameters ->> 'base_model') end as ref
      from root
      join training_run job on job.id = root.job_id
      left join lateral (
        select ref from merge_source where job_id = job.id order by position limit 1
      ) source on true
    )
    select
      case when hub_model.repo_id is not null then hub_model.repo_id
        when fetched.ref is not null then fetched.ref ->> 'repo_id'
        else root.model_config_id end as name,
      (select endpoint.model_category from endpoint
        where endpoint.version_id = root.id and endpoint.source = 'catalog'
        order by endpoint.id limit 1) as category
    from root
    left join fetched on true
    left join hub_model on hub_model.version_id = root.id
  `.execute(db)
  return rows[0] ?? { name: null, category: null }
}
