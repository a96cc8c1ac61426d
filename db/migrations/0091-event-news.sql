-- Wakes the followers of an account's events once per statement that writes events for the feed.
create function event_news() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_event', account_id::text) from (
    select distinct account_id from fresh where type <> 'inference.task.succeeded'
  ) told;
  return null;
end $$;
create trigger event_news after insert on event referencing new table as fresh
  for each statement execute function event_news();
