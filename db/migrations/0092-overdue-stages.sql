-- When the workflow of a stage was last told that its call takes too long, so that the others are told before it is told
-- again.
alter table cohort_stage add column overdue_at timestamptz;
