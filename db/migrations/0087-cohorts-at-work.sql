-- Searched every few seconds for work that has timed out; only a few of all stored rows are in progress.
create index cohort_stage_at_work on cohort_stage (cohort_id) where status in ('loading', 'waiting', 'running');
