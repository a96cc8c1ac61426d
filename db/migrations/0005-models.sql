create table model (
  id uuid primary key,
  account_id uuid not null references account,
  name text not null,
  created_at timestamptz not null default now()
);
create index model_account on model (account_id, id desc);

-- An immutable artifact set with its lineage. `model_key` names its task queues and is never reused.
create table model_version (
  id uuid primary key,
  account_id uuid not null references account,
  model_id uuid references model,
  model_key text not null unique,
  name text not null,
  model_config_id text not null,
  runtime_profile text not null,
  visibility text not null default 'private' check (visibility in ('private', 'public')),
  lifecycle_status text not null default 'candidate' check (lifecycle_status in ('candidate', 'ready', 'preferred', 'disabled')),
  job_id uuid references training_run,
  dataset_id uuid references dataset,
  parent_job_id uuid,
  base_model_version_id uuid references model_version,
  memory_mb integer not null,
  input_schema jsonb not null,
  output_schema jsonb not null,
  example_input jsonb not null,
  example_output jsonb not null,
  created_at timestamptz not null default now()
);
create index model_version_account on model_version (account_id, id desc);
create unique index model_version_job on model_version (job_id);

create table version_file (
  version_id uuid not null references model_version,
  path text not null,
  object_key text not null,
  size_bytes bigint not null,
  sha256 text not null,
  primary key (version_id, path)
);

-- How long a model took to become warm, by its starting state and the kind of node.
create table load_time (
  model_key text not null,
  start_state text not null check (start_state in ('cached', 'cold')),
  hardware text not null,
  mean_ms double precision not null,
  samples integer not null,
  updated_at timestamptz not null default now(),
  primary key (model_key, start_state, hardware)
);

create table endpoint (
  id uuid primary key,
  account_id uuid not null references account,
  name text not null unique,
  display_name text not null default '',
  description text not null default '',
  visibility text not null check (visibility in ('private', 'account', 'public')),
  status text not null default 'active' check (status in ('active', 'paused', 'inactive', 'deprecated')),
  review_status text not null check (review_status in ('active', 'pending_review', 'approved', 'rejected')),
  source text not null check (source in ('catalog', 'trained')),
  is_base_model boolean not null default false,
  task_type text not null,
  base_model text,
  model_category text,
  version_id uuid not null references model_version,
  model_key text not null,
  runtime_profile text not null,
  input_schema jsonb not null,
  output_schema jsonb not null,
  example_input jsonb not null,
  example_output jsonb not null,
  tags text[] not null default '{}',
  price_micro bigint not null default 0 check (price_micro >= 0),
  total_requests bigint not null default 0,
  total_tokens_processed bigint not null default 0,
  last_used_at timestamptz,
  review_note text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index endpoint_account on endpoint (account_id, created_at desc, id desc) where deleted_at is null;
create index endpoint_public on endpoint (created_at desc, id desc)
  where deleted_at is null and visibility = 'public' and review_status = 'approved';
create index endpoint_model on endpoint (model_key) where deleted_at is null;
