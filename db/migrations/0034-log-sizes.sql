-- The size of a job's log; beyond a limit further lines are dropped, and one line says so.
create table job_log_size (
  job_id uuid primary key references training_run on delete cascade,
  bytes bigint not null
);
