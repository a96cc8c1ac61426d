-- The commit of the hub repository a run starts from: set when it is first resolved, so that every attempt has the same base.
alter table training_run add column base_revision text;
