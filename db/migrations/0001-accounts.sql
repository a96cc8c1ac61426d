-- Accounts, keys, idempotency, the kill switch and cache versions (design sections 5 and 10.11).

create table account (
  id uuid primary key,
  name text not null,
  training_quota integer not null default 4 check (training_quota >= 0),
  created_at timestamptz not null default now()
);

create table api_key (
  id uuid primary key,
  account_id uuid not null references account,
  name text not null,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  key_hash bytea not null unique,
  key_hint text not null,
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
create index api_key_account on api_key (account_id, id desc);

-- `operation` holds the operation id and its path parameters. A row without a status belongs to a request in progress.
create table idempotency (
  account_id uuid not null references account,
  operation text not null,
  key uuid not null,
  body_digest bytea not null,
  status integer,
  reply bytea,
  created_at timestamptz not null default now(),
  primary key (account_id, operation, key)
);
create index idempotency_created on idempotency (created_at);

-- One row per cache: NOTIFY wakes its readers, which also poll the version in case a notification is lost.
create table cache_version (
  name text primary key,
  version bigint not null default 1
);
insert into cache_version (name) values ('api_key'), ('endpoint'), ('kill_switch'), ('node');

create table kill_switch (
  id integer primary key check (id = 1),
  active boolean not null default false,
  reason text,
  actor text,
  version bigint not null default 1,
  changed_at timestamptz not null default now()
);
insert into kill_switch (id) values (1);

-- A gateway owns the open rows that it wrote while its lease lasts; afterwards the reaper ends them.
create table gateway (
  id uuid primary key,
  base_url text not null,
  kill_switch_version bigint not null default 0,
  started_at timestamptz not null default now(),
  lease_expires_at timestamptz not null
);

-- Workflow starts, enqueued in the transaction that creates the row they work on; removed once Temporal has them.
create table workflow_start (
  workflow_id text primary key,
  workflow text not null,
  task_queue text not null,
  args jsonb not null,
  options jsonb not null default '{}',
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  created_at timestamptz not null default now()
);
create index workflow_start_due on workflow_start (next_attempt_at);

-- Terminal events, frozen in the form in which they are sent (contract part 6).
create table event (
  id uuid primary key,
  account_id uuid not null references account,
  type text not null,
  resource_id uuid not null,
  payload bytea not null,
  created_at timestamptz not null default now(),
  unique (resource_id, type)
);
create index event_created on event (created_at);
