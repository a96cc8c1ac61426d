-- Whoever follows the events of an account is woken once per statement that writes some for the feed.
create function event_news() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_event', account_id::text) from (
    select distinct account_id from fresh where type <> 'inference.task.succeeded'
  ) told;
  return null;
end $$;
create trigger event_news after insert on event referencing new table as fresh
  for each statement execute function event_news();
