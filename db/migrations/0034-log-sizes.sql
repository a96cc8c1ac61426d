-- What the lines of a job take: beyond a limit further lines are let go, and one line says so.
create table job_log_size (
  job_id uuid primary key references training_run on delete cascade,
  bytes bigint not null
);
