-- Drop foreign keys from tables to which the journal appends thousands of rows. Accounts, endpoints and nodes are never
-- deleted, only marked, and looking up and locking the referenced rows was a quarter of the whole write (measured).
alter table task
  drop constraint task_account_id_fkey,
  drop constraint task_endpoint_id_fkey,
  drop constraint task_node_id_fkey;
alter table event drop constraint event_account_id_fkey;
