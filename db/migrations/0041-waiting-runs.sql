-- Why no node can take a run, and since when; null while a node runs it or could.
alter table training_run add column waiting_reason text;
alter table training_run add column waiting_since timestamptz;
