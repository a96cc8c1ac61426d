-- Each change by an operator, or by an account to its keys, writes one row in its transaction. Ids sort by time, so
-- every list below reads an index from its end.
create table audit_log (
  id uuid primary key,
  at timestamptz not null default now(),
  -- `operations-key`, `key:<id>`, or the person that an order to the kill switch names.
  actor text not null,
  -- The id of the operation.
  action text not null,
  subject_kind text not null,
  subject_id text not null,
  -- The account that the change is about; null for changes of the platform.
  account_id uuid,
  -- For each field, the old and the new value.
  changes jsonb not null
);
create index audit_log_age on audit_log (at);
create index audit_log_actor on audit_log (actor, id desc);
create index audit_log_action on audit_log (action, id desc);
create index audit_log_subject on audit_log (subject_id, id desc);
create index audit_log_account on audit_log (account_id, id desc) where account_id is not null;
