-- The number of times that a candidate's test was enqueued; a test that ends without a verdict is enqueued once more.
alter table model_version add column tests integer not null default 0;
update model_version set tests = 1 where lifecycle_status = 'candidate' and lifecycle_note is null and job_id is not null;
create index model_version_in_test on model_version (id)
  where lifecycle_status = 'candidate' and lifecycle_note is null and tests > 0;
