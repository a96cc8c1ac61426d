-- A job: a training run or a merge (contract 2.3).
create table training_run (
  id uuid primary key,
  account_id uuid not null references account,
  job_type text not null check (job_type in ('training', 'merge')),
  job_name text not null,
  status text not null check (status in ('pending', 'running', 'completed', 'failed', 'cancelled')),
  model_config_id text not null,
  dataset_id uuid references dataset,
  hyperparameters jsonb not null,
  operating_mode text not null check (operating_mode in ('eco', 'balanced', 'performance')),
  hardware_preference text not null check (hardware_preference in ('auto', 'cpu_only', 'gpu_only', 'gpu_preferred')),
  -- Task queue the run waits on: train.cpu, train.gpu or merge.cpu.
  task_queue text not null,
  base jsonb,
  parent_job_id uuid,
  config_digest text not null,
  attempt integer not null default 0,
  metrics jsonb not null default '{}',
  output jsonb,
  error_message text,
  estimated_cost_credits double precision,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  completed_at timestamptz,
  deleted_at timestamptz
);
create index training_run_account on training_run (account_id, id desc) where deleted_at is null;
create index training_run_account_status on training_run (account_id, status, id desc) where deleted_at is null;
create index training_run_open on training_run (task_queue, id) where status in ('pending', 'running');
create index training_run_dataset on training_run (dataset_id) where status in ('pending', 'running');
create index training_run_digest on training_run (account_id, config_digest, id desc);

-- `dedupe` names the occurrence (for example started/1), so an event that is reported twice is stored once.
create table job_event (
  id uuid primary key,
  job_id uuid not null references training_run,
  event_type text not null check (event_type in ('queued', 'started', 'checkpoint', 'resumed', 'preempted', 'artifact_uploaded', 'completed', 'failed', 'cancelled')),
  dedupe text not null,
  detail text,
  created_at timestamptz not null default now(),
  unique (job_id, dedupe)
);

-- Log lines and losses arrive over the link, possibly twice; the keys ensure that each is stored once.
create table job_log (
  job_id uuid not null references training_run,
  attempt integer not null,
  seq integer not null,
  message text not null,
  created_at timestamptz not null,
  primary key (job_id, attempt, seq)
);

create table job_epoch (
  job_id uuid not null references training_run,
  epoch integer not null,
  attempt integer not null,
  train_loss double precision,
  val_loss double precision,
  created_at timestamptz not null default now(),
  primary key (job_id, epoch)
);

create table job_checkpoint (
  id uuid primary key,
  job_id uuid not null references training_run,
  attempt integer not null,
  epoch integer not null,
  object_key text not null unique,
  size_bytes bigint not null,
  sha256 text not null,
  config_digest text not null,
  created_at timestamptz not null default now()
);
create index job_checkpoint_job on job_checkpoint (job_id, id desc);

create table artifact (
  id uuid primary key,
  job_id uuid not null references training_run,
  filename text not null,
  object_key text not null unique,
  size_bytes bigint not null,
  content_type text not null default 'application/octet-stream',
  sha256 text not null,
  last_modified timestamptz not null default now(),
  unique (job_id, filename)
);
