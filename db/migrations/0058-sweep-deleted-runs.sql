-- Runs that were deleted are swept like any other that has ended: an upload that was under way may have come after the deletion.
create index training_run_to_sweep on training_run (completed_at)
  where files_swept_at is null and completed_at is not null;
