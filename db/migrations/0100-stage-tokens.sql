-- The tokens that a language model has counted for a stage, as a task has those of its own.
alter table cohort_stage add column tokens_in integer, add column tokens_out integer;
