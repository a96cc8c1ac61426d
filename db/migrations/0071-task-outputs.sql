-- The files of a task's result. Their objects stay as long as the task.
alter table task add column outputs jsonb;

-- Tasks for whose lease we signed upload URLs, so that files which no result names can be removed.
create table task_upload (
  task_id uuid primary key,
  account_id uuid not null,
  -- No file can be PUT after this time.
  signed_until timestamptz not null,
  swept_at timestamptz
);
