-- The version whose server also serves this endpoint's model, as an adapter; null while its own merged weights are served.
alter table endpoint add column base_version_id uuid references model_version;
-- Why the endpoint is served merged; null unless it could have been an adapter.
alter table endpoint add column merged_because text;
create index endpoint_base_version on endpoint (base_version_id) where base_version_id is not null;
