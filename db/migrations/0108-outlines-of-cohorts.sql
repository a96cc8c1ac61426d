-- The graph of a cohort without its values (inputs, default outputs, templates), which may have megabytes; every read
-- of a cohort uses it. Rows of older processes have none, and readers use the whole graph instead.
alter table cohort add column if not exists outline json;
alter table cohort_stage add column if not exists outline json;
