-- Merges listed their base first among `sources`, and adapters under that name too, so they could not be sent again.
-- Base and models stand apart now, as in the request; rows that an older process adds during an upgrade keep their form.
update training_run set hyperparameters = (hyperparameters - 'sources') || jsonb_build_object(
  case when hyperparameters ->> 'method' = 'adapter_merge' then 'adapters' else 'sources' end,
  case when base is null then hyperparameters -> 'sources' else (hyperparameters -> 'sources') - 0 end)
where job_type = 'merge' and jsonb_typeof(hyperparameters -> 'sources') = 'array';
