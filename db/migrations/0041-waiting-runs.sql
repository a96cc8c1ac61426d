-- Why no node can take a run, and since when; null while one is at it or could be.
alter table training_run add column waiting_reason text;
alter table training_run add column waiting_since timestamptz;
