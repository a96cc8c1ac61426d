-- Deliveries are no longer created by the statement that writes an event. That statement, which may be a journal's with
-- the events of every tenant, writes one row here for each event with a subscriber, whatever the number of
-- destinations. The dispatcher turns the rows into deliveries.
create table webhook_outbox (
  event_id uuid primary key,
  account_id uuid not null,
  event_type text not null,
  created_at timestamptz not null default now()
);
create index webhook_outbox_account on webhook_outbox (account_id, event_id);

-- Events for a destination that has reached its limit of open deliveries; they become deliveries as those end.
create table webhook_overflow (
  endpoint_id uuid not null references webhook_endpoint on delete cascade,
  event_id uuid not null,
  account_id uuid not null,
  event_type text not null,
  created_at timestamptz not null,
  primary key (endpoint_id, event_id)
);
create index webhook_delivery_open_endpoint on webhook_delivery (endpoint_id)
  where status in ('pending', 'delivering', 'retrying');

-- A destination gets events from this time on; null for a destination that was active before the column existed.
alter table webhook_endpoint add column active_since timestamptz;

create function webhook_endpoint_activated() returns trigger language plpgsql as $$
begin
  new.active_since := clock_timestamp();
  return new;
end $$;

create trigger webhook_endpoint_activated before update on webhook_endpoint for each row
  when (new.enabled and new.verification_status = 'active'
    and not (old.enabled and old.verification_status = 'active'))
  execute function webhook_endpoint_activated();

create or replace function webhook_fan_out() returns trigger language plpgsql as $$
begin
  insert into webhook_outbox (event_id, account_id, event_type)
  select fresh.id, fresh.account_id, fresh.type from fresh
  where exists (
    select 1 from webhook_endpoint endpoint
    where endpoint.account_id = fresh.account_id and endpoint.deleted_at is null and endpoint.enabled
      and endpoint.verification_status = 'active' and fresh.type = any (endpoint.event_types))
  on conflict do nothing;
  if found then
    perform pg_notify('hearth_webhook', '');
  end if;
  return null;
end $$;

-- Challenges are counted by account and by destination origin.
alter table webhook_verification add column account_id uuid;
alter table webhook_verification add column url_origin text;
create index webhook_verification_account on webhook_verification (account_id, created_at desc);
