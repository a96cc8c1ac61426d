-- Why a task was given no memory; null if the outcome says it, or if a process of an earlier version wrote the row.
alter table task_memory add column reason text check (reason in
  ('no_grant', 'key_revoked', 'disabled', 'no_snapshot', 'too_late', 'unreadable'));

-- The embeddings model that a gateway is configured with; null if it has none or runs an earlier version.
alter table gateway add column memory_model text;
