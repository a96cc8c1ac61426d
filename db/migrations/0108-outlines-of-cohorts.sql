-- The graph of a cohort without the values in it (inputs, default outputs, templates), which may have megabytes; every look at
-- a cohort reads it. Rows of older processes have none, and readers take the whole graph of these.
alter table cohort add column if not exists outline json;
alter table cohort_stage add column if not exists outline json;
