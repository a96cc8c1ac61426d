-- The lists of an account by name; models have such an index already, which is unique.
create index dataset_account_name on dataset (account_id, dataset_name, id) where deleted_at is null;
create index training_run_account_name on training_run (account_id, job_name, id) where deleted_at is null;
