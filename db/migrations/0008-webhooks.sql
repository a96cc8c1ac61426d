-- Outbound webhooks (contract 2.12 to 2.14, 3.7, 4.8, part 6; design 10.8).

create table webhook_endpoint (
  id uuid primary key,
  account_id uuid not null references account,
  name text not null,
  -- Encrypted under the key ring; reads show `https://***` and the origin.
  url_sealed bytea not null,
  url_origin text not null,
  event_types text[] not null,
  enabled boolean not null default true,
  -- Why the platform disabled the endpoint, for example because the destination returned 410.
  disabled_reason text,
  verification_status text not null check (verification_status in ('pending_verification', 'active')),
  -- The ETag; incremented with every change that a client can see.
  revision integer not null default 1,
  -- Incremented when the URL changes or the endpoint is re-enabled. Verifications and redeliveries are for one version.
  destination_version integer not null default 1,
  secret_hint text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index webhook_endpoint_account on webhook_endpoint (account_id, id desc) where deleted_at is null;
create index webhook_endpoint_subscribed on webhook_endpoint (account_id)
  where deleted_at is null and enabled and verification_status = 'active';

-- Secrets sign while they are valid; an emergency rotation revokes the earlier ones immediately.
create table webhook_secret (
  id uuid primary key,
  endpoint_id uuid not null references webhook_endpoint,
  sealed bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  -- Revoked by an emergency rotation: not even a delivery that pins the secret may sign with it.
  revoked boolean not null default false
);
create index webhook_secret_endpoint on webhook_secret (endpoint_id, id desc);

create table webhook_verification (
  endpoint_id uuid not null references webhook_endpoint,
  destination_version integer not null,
  event_id uuid not null,
  challenge text not null,
  status text not null check (status in ('pending', 'verified', 'failed', 'superseded')),
  window_ends_at timestamptz not null,
  created_at timestamptz not null default now(),
  primary key (endpoint_id, destination_version)
);

-- One row per event, endpoint and generation. The payload stays in `event`.
create table webhook_delivery (
  id uuid primary key,
  account_id uuid not null references account,
  endpoint_id uuid not null references webhook_endpoint,
  -- No foreign key, because the delivery outlives the event by a week.
  event_id uuid not null,
  event_type text not null,
  generation integer not null default 1,
  redelivery_of uuid references webhook_delivery,
  status text not null check (status in ('pending', 'delivering', 'retrying', 'succeeded', 'failed', 'dead_lettered', 'cancelled')),
  attempts integer not null default 0,
  -- Pinned by a redelivery; null means the current version at the time of the attempt.
  pinned_version integer,
  pinned_secrets uuid[],
  next_attempt_at timestamptz,
  deadline_at timestamptz not null,
  created_at timestamptz not null default now(),
  completed_at timestamptz,
  unique (endpoint_id, event_id, generation)
);
create index webhook_delivery_account on webhook_delivery (account_id, id desc);
create index webhook_delivery_endpoint on webhook_delivery (endpoint_id, id desc);
create index webhook_delivery_account_status on webhook_delivery (account_id, status, id desc);
create index webhook_delivery_account_type on webhook_delivery (account_id, event_type, id desc);
create index webhook_delivery_fresh on webhook_delivery (endpoint_id, id) where status = 'pending';
create index webhook_delivery_open on webhook_delivery (next_attempt_at) where status in ('delivering', 'retrying');
create index webhook_delivery_created on webhook_delivery (created_at);

-- Append-only; a row without an outcome is in progress, or was when its process died.
create table webhook_attempt (
  delivery_id uuid not null references webhook_delivery on delete cascade,
  number integer not null,
  started_at timestamptz not null,
  finished_at timestamptz,
  outcome text check (outcome in ('succeeded', 'retryable', 'permanent', 'interrupted')),
  error_code text,
  status_class text,
  primary key (delivery_id, number)
);
create index webhook_attempt_started on webhook_attempt (started_at);
create index webhook_attempt_open on webhook_attempt (started_at) where outcome is null;

insert into cache_version (name) values ('webhook_endpoint');
