-- When a stage's workflow was last notified that its call takes too long, so that other workflows are notified first
-- before this one is notified again.
alter table cohort_stage add column overdue_at timestamptz;

-- Each stage records what it waits for, so that a stage that continues does not hide another one that still waits. The
-- cohort's own column is no longer read.
alter table cohort_stage add column waiting_for text;
