-- The number of copies of its model that an endpoint's owner wants; operators want at least endpoint.min_warm.
create table endpoint_scaling (
  endpoint_id uuid primary key references endpoint,
  min_copies integer not null check (min_copies >= 0),
  max_copies integer not null check (max_copies >= min_copies and max_copies >= 1),
  target_in_flight integer check (target_in_flight >= 1),
  target_wait_ms integer check (target_wait_ms >= 1),
  -- Seconds; 0 is never, null the default of each node.
  idle_timeout_s integer check (idle_timeout_s >= 0),
  schedule jsonb not null,
  -- The copies that count for the quota of the account.
  reserved integer not null check (reserved >= 0),
  updated_at timestamptz not null default now(),
  check (target_in_flight is null or target_wait_ms is null)
);

-- The copies that an account may reserve for its endpoints; null is the platform's default.
alter table account add column copy_quota integer check (copy_quota >= 0);

-- The decision about each model whose endpoints have a scaling.
create table model_scale (
  model_key text primary key,
  copies integer not null check (copies >= 0),
  waited_s double precision not null,
  -- For each copy the time at which that many were last needed.
  needed_at timestamptz[] not null,
  decided_at timestamptz not null
);

-- A gateway's measurements of a model since its last write. Lost in a crash, but soon measured again.
create unlogged table model_demand (
  gateway_id uuid not null,
  model_key text not null,
  in_flight double precision not null,
  waiting double precision not null,
  service_ms double precision not null,
  measured_at timestamptz not null,
  primary key (model_key, gateway_id)
);

create table scaling_change (
  id uuid primary key,
  endpoint_id uuid not null references endpoint,
  model_key text not null,
  copies_before integer not null,
  copies integer not null,
  reason text not null,
  created_at timestamptz not null
);
create index scaling_change_endpoint on scaling_change (endpoint_id, id desc);
create index scaling_change_created on scaling_change (created_at);

-- The time since which the copy is no longer needed: the node unloads it once no request uses it.
alter table warm_pin add column retiring_since timestamptz;
