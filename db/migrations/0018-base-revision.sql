-- The commit of the hub repository that a run starts from. Stored when first resolved, so all attempts have the same
-- base.
alter table training_run add column base_revision text;
