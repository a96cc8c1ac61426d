-- What the journal appends by the thousand. Accounts, endpoints and nodes are never deleted, only marked; to look up and
-- lock what each row refers to was a quarter of the whole write (measured).
alter table task
  drop constraint task_account_id_fkey,
  drop constraint task_endpoint_id_fkey,
  drop constraint task_node_id_fkey;
alter table event drop constraint event_account_id_fkey;
