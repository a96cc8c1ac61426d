-- Looked at every few seconds for work whose time has run out; those at work are few among all that are kept.
create index cohort_stage_at_work on cohort_stage (cohort_id) where status in ('loading', 'waiting', 'running');
