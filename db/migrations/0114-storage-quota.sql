-- The bytes that an account may store; null is the platform's default, 0 is no limit.
alter table account add column storage_quota_bytes bigint check (storage_quota_bytes >= 0);

-- `size_bytes` is the declared size of an upload, and its measured size once `stored_at` is set.
alter table dataset_upload add column size_bytes bigint check (size_bytes >= 0);
alter table dataset_upload add column stored_at timestamptz;
create index dataset_upload_account_open on dataset_upload (account_id) where status in ('initialised', 'ingesting');

-- Bytes of a transfer in progress. The gateway that receives it renews the hold, so that a killed gateway frees it.
create table storage_hold (
  id uuid primary key,
  account_id uuid not null references account,
  -- The upload to whose signed URL the bytes are PUT; null for a form upload.
  upload_id uuid,
  bytes bigint not null check (bytes >= 0),
  expires_at timestamptz not null
);
create index storage_hold_account on storage_hold (account_id);

-- The sum of an account's stored bytes reads these.
create index uploaded_input_account on uploaded_input (account_id);
create index task_with_outputs on task (account_id) where outputs is not null;
