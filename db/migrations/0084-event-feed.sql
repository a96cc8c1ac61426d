-- The feed of an account. Requests to models that succeed are most events by far, and stand in the list of tasks: the
-- statement that writes them pays nothing for this index.
create index event_feed on event (account_id, id desc) where type <> 'inference.task.succeeded';
