-- Trained endpoints named their version's config as their base model. From now on they name the start of the version's
-- chain of bases: the repository that it was imported or fetched from, or the config that trained it from scratch.
with recursive chain as (
  select endpoint.id as endpoint_id, version.id, version.base_model_version_id, version.job_id, version.model_config_id, 0 as depth
  from endpoint join model_version version on version.id = endpoint.version_id
  where endpoint.source = 'trained'
  union all
  select chain.endpoint_id, base.id, base.base_model_version_id, base.job_id, base.model_config_id, chain.depth + 1
  from chain join model_version base on base.id = chain.base_model_version_id
), root as (
  select distinct on (endpoint_id) * from chain order by endpoint_id, depth desc
), named as (
  select root.endpoint_id,
    case when hub_model.repo_id is not null then hub_model.repo_id
      when job.job_type = 'training' and job.base ->> 'type' = 'storage' then null
      when job.job_type = 'training' and job.hyperparameters ->> 'base_model' is not null then job.hyperparameters ->> 'base_model'
      else root.model_config_id end as base_model,
    (select listed.model_category from endpoint listed
      where listed.version_id = root.id and listed.source = 'catalog' order by listed.id limit 1) as category
  from root
  left join training_run job on job.id = root.job_id
  left join hub_model on hub_model.version_id = root.id
)
update endpoint set base_model = named.base_model, model_category = coalesce(endpoint.model_category, named.category)
from named where named.endpoint_id = endpoint.id
  and (endpoint.base_model is distinct from named.base_model or endpoint.model_category is null);
