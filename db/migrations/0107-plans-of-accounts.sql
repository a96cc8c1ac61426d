-- The plans of an account are counted, and the expired ones of an account with too many are deleted.
create index cohort_plan_account on cohort_plan (account_id, expires_at);
