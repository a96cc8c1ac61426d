-- The list of an account's tasks, and its usage. Neither index has a row for the many tasks that succeed.
create index task_account_open on task (account_id, id desc) where status not in ('succeeded', 'failed');
create index task_account_failed on task (account_id, id desc) where status = 'failed';

-- The key that requested a task, and the language model's token counts; null in rows of gateways that don't record
-- them.
alter table task add column key_id uuid, add column tokens_in bigint, add column tokens_out bigint;

-- Stages book ledger entries under their own ids.
create index cohort_stage_account on cohort_stage (account_id, id desc);
