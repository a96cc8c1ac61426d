-- A trigger turns an event into deliveries in the transaction that writes it: one row for each endpoint of the account
-- that is subscribed, enabled and verified at that moment (design 10.8).

create function webhook_fan_out() returns trigger language plpgsql as $$
begin
  insert into webhook_delivery (id, account_id, endpoint_id, event_id, event_type, status, next_attempt_at, deadline_at, created_at)
  select uuidv7(), fresh.account_id, endpoint.id, fresh.id, fresh.type, 'pending', now(), now() + interval '48 hours', now()
  from fresh
  join webhook_endpoint endpoint on endpoint.account_id = fresh.account_id
  where endpoint.deleted_at is null and endpoint.enabled and endpoint.verification_status = 'active'
    and fresh.type = any (endpoint.event_types);
  if found then
    perform pg_notify('hearth_webhook', '');
  end if;
  return null;
end $$;

create trigger webhook_fan_out after insert on event
  referencing new table as fresh for each statement execute function webhook_fan_out();
