create table dataset (
  id uuid primary key,
  account_id uuid not null references account,
  dataset_name text not null,
  description text not null default '',
  status text not null check (status in ('pending', 'ready', 'failed')),
  storage_format text not null check (storage_format in ('csv', 'jsonl', 'parquet', 'hf_dataset')),
  visibility text not null check (visibility in ('private', 'public')),
  num_samples bigint,
  total_size_bytes bigint,
  columns jsonb,
  object_key text,
  error_message text,
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index dataset_account on dataset (account_id, id desc) where deleted_at is null;
create index dataset_account_status on dataset (account_id, status, id desc) where deleted_at is null;

create table dataset_upload (
  id uuid primary key,
  dataset_id uuid not null references dataset,
  account_id uuid not null references account,
  filename text not null,
  content_type text not null,
  object_key text not null,
  status text not null check (status in ('initialised', 'ingesting', 'ready', 'failed')),
  error_message text,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
create index dataset_upload_dataset on dataset_upload (dataset_id, id desc);
create index dataset_upload_open on dataset_upload (created_at) where status in ('initialised', 'ingesting');
