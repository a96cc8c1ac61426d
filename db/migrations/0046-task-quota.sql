-- The number of tasks that an account may have waiting for a node, and an index to count them.
alter table account add column task_quota integer not null default 1000 check (task_quota >= 0);
create index task_waiting on task (account_id) where status not in ('succeeded', 'failed', 'running');
