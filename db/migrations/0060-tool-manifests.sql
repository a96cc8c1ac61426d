-- The version of each endpoint's tool manifest, and the data that the next version is compared with.
create table tool_version (
  endpoint_id uuid primary key references endpoint on delete cascade,
  version text not null,
  -- SHA-256 of the manifest without its version.
  digest bytea not null,
  -- The number of the rules by which the manifest was built; older rules never replace newer ones.
  format integer not null,
  input_schema jsonb not null,
  output_schema jsonb not null,
  updated_at timestamptz not null default now()
);

-- Which endpoints each version of the cache `endpoint` has changed. A version without rows may have changed any.
create table endpoint_change (
  version bigint not null,
  endpoint_id uuid not null,
  changed_at timestamptz not null default now()
);
create index endpoint_change_version on endpoint_change (version);
create index endpoint_change_age on endpoint_change (changed_at);

-- The name of the endpoint that replaces a deprecated one, and the time of its deprecation.
alter table endpoint add column replaced_by text;
alter table endpoint add column deprecated_at timestamptz;
create index endpoint_replaced_by on endpoint (replaced_by) where replaced_by is not null;
update endpoint set deprecated_at = updated_at where status = 'deprecated';

-- Further examples by the owner, in addition to example_input and example_output.
alter table endpoint add column examples jsonb not null default '[]';

-- Statistics of the endpoint's use, updated when usage is folded.
alter table endpoint add column succeeded_requests bigint not null default 0;
alter table endpoint add column failure_share double precision;
alter table endpoint add column proven text not null default 'experimental' check (proven in ('experimental', 'beta', 'stable'));
alter table endpoint add column latency_class text check (latency_class in ('instant', 'fast', 'slow', 'batch'));
update endpoint set latency_class = case when latency_ms < 200 then 'instant' when latency_ms < 2000 then 'fast'
  when latency_ms < 30000 then 'slow' else 'batch' end where latency_ms is not null;
create index endpoint_unstable on endpoint (created_at) where proven = 'beta' and deleted_at is null;

-- The tools that a key is limited to: names, patterns of names, kinds and levels of stability. Null is no limit.
alter table api_key add column tools text[];
