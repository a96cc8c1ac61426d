-- When the workflow of a stage was last told that its call takes too long, so that the others are told before it is told
-- again.
alter table cohort_stage add column overdue_at timestamptz;

-- Each stage tells what it waits for, so that one that goes on does not hide another that still waits. Nothing reads what
-- the row of the cohort says of it any more.
alter table cohort_stage add column waiting_for text;
