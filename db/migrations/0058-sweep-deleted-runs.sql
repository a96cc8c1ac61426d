-- Deleted runs are swept like other ended runs: an upload in progress may have arrived after the deletion.
create index training_run_to_sweep on training_run (completed_at)
  where files_swept_at is null and completed_at is not null;
