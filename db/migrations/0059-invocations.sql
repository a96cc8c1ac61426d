-- An invocation of an action wraps the task or job that does its work. It has no status column, because its status is
-- that of the work; its terminal event is written together with the end of the work.
create table invocation (
  id uuid primary key,
  account_id uuid not null,
  slug text not null,
  kind text not null check (kind in ('llm', 'specialist', 'tool', 'trained_model', 'generative', 'model', 'operation')),
  -- The journal appends the rows of tasks, so they have no foreign keys (see 0020).
  task_id uuid,
  job_id uuid,
  created_at timestamptz not null default now(),
  -- Whether the terminal event has been written. Gateways and workers of earlier versions end tasks and jobs without it;
  -- a pass over the open rows then writes the event.
  ended boolean not null default false,
  check (num_nonnulls(task_id, job_id) = 1)
);
create unique index invocation_task on invocation (task_id) where task_id is not null;
create unique index invocation_job on invocation (job_id) where job_id is not null;
create index invocation_open on invocation (created_at) where not ended;

-- Lists of actions are newest first by id.
create index endpoint_account_newest on endpoint (account_id, id desc) where deleted_at is null;
