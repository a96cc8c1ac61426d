-- The tokens that a language model has counted for a stage, as in the columns of a task.
alter table cohort_stage add column tokens_in integer, add column tokens_out integer;
