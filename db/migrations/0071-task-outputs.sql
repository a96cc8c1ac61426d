-- The files of a task's result. Their objects stay as long as the task.
alter table task add column outputs jsonb;

-- Tasks under whose lease URLs to PUT files to were signed, so that files which no result names are removed.
create table task_upload (
  task_id uuid primary key,
  account_id uuid not null,
  -- Nothing can be PUT later.
  signed_until timestamptz not null,
  swept_at timestamptz
);
