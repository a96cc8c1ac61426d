-- An account's import of a hub repository. The revision is pinned, so the version made from it never changes.
create table hub_model (
  id uuid primary key,
  account_id uuid not null references account,
  repo_id text not null,
  -- The commit at import.
  revision text not null,
  task_type text not null,
  model_name text not null unique,
  version_id uuid not null unique references model_version,
  endpoint_id uuid not null references endpoint,
  size_bytes bigint not null,
  vram_mb integer,
  params_b double precision,
  licence text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (account_id, repo_id)
);

-- An account's settings for a config of the catalog; without a row the catalog's settings apply.
create table model_config_lifecycle (
  account_id uuid not null references account,
  model_config_id text not null,
  lifecycle_status text not null check (lifecycle_status in ('candidate', 'ready', 'preferred', 'disabled')),
  reason text,
  updated_at timestamptz not null default now(),
  primary key (account_id, model_config_id)
);

-- The reason for a version's lifecycle status: the result of its test, or why it was disabled.
alter table model_version add column lifecycle_note text;

-- Only merged, retrained and hub models must pass a test first.
update model_version set lifecycle_status = 'ready'
where lifecycle_status = 'candidate' and base_model_version_id is null and parent_job_id is null;

create index model_version_model on model_version (model_id, id desc) where model_id is not null;
create index model_version_base on model_version (base_model_version_id) where base_model_version_id is not null;
