-- The current process of a node; a process that starts later with the same identity replaces it.
alter table node add column instance_id uuid;
