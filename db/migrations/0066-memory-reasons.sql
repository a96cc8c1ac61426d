-- Why a task was given no memory; null where the outcome says it, or where a process of an earlier version wrote it.
alter table task_memory add column reason text check (reason in
  ('no_grant', 'key_revoked', 'disabled', 'no_snapshot', 'too_late', 'unreadable'));

-- The model of embeddings that a gateway is set to; null for one without, or of an earlier version.
alter table gateway add column memory_model text;
