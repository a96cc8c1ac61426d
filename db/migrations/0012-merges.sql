-- The sources of a merge, as requested: versions, or addresses in the object store.
create table merge_source (
  job_id uuid not null references training_run,
  position integer not null,
  role text not null check (role in ('base', 'adapter', 'source')),
  ref jsonb not null,
  version_id uuid references model_version,
  weight double precision,
  primary key (job_id, position)
);
create index merge_source_version on merge_source (version_id) where version_id is not null;

-- The sources of a merged version.
create table version_source (
  version_id uuid not null references model_version,
  source_version_id uuid not null references model_version,
  role text not null check (role in ('base', 'adapter', 'source')),
  weight double precision,
  position integer not null,
  primary key (version_id, position)
);
create index version_source_source on version_source (source_version_id);
