-- The feed of an account. It leaves out successful requests to models: they are by far the most events, and the list of
-- tasks has them. So the statement that writes them pays nothing for this index.
create index event_feed on event (account_id, id desc) where type <> 'inference.task.succeeded';
