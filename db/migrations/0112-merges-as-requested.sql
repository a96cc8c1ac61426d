-- Merges listed their base first among `sources`, and also adapters under that name, so they could not be resubmitted.
-- Base and models are now separate, as in the request; rows that an older process adds during an upgrade keep their
-- form.
update training_run set hyperparameters = (hyperparameters - 'sources') || jsonb_build_object(
  case when hyperparameters ->> 'method' = 'adapter_merge' then 'adapters' else 'sources' end,
  case when base is null then hyperparameters -> 'sources' else (hyperparameters -> 'sources') - 0 end)
where job_type = 'merge' and jsonb_typeof(hyperparameters -> 'sources') = 'array';
