-- The process that a node runs as: one that was started later with the same identity takes its place.
alter table node add column instance_id uuid;
