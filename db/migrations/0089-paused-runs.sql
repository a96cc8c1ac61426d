-- A paused run keeps its status, and no attempt begins while this is set; null once the run is resumed.
alter table training_run add column paused_at timestamptz;

alter table job_event drop constraint job_event_event_type_check;
alter table job_event add constraint job_event_event_type_check check (event_type in ('queued', 'started', 'checkpoint',
  'resumed', 'preempted', 'paused', 'artifact_uploaded', 'completed', 'failed', 'cancelled')) not valid;
