-- The memory that an account gives to its models. Texts are encrypted; nothing else here is content.
create table memory_namespace (
  id uuid primary key,
  account_id uuid not null unique references account,
  enabled boolean not null default true,
  -- The newest snapshot that is ready.
  snapshot_id uuid,
  -- The number of requested snapshots, and the number of the one that has not frozen its entries yet.
  builds bigint not null default 0,
  wanted_build bigint,
  wanted_at timestamptz,
  created_at timestamptz not null default now()
);

-- Each row names its namespace, so that a re-created namespace contains nothing of the previous one.
create table memory_entry (
  id uuid primary key,
  namespace_id uuid not null references memory_namespace on delete cascade,
  account_id uuid not null references account,
  -- Grows in commit order within a namespace: a snapshot is everything up to one number.
  version bigint generated always as identity,
  sealed bytea not null,
  tokens integer not null,
  source text not null,
  api_key_id uuid references api_key,
  created_at timestamptz not null default now(),
  superseded_by uuid,
  -- Until this time a gateway is embedding the entry.
  embed_until timestamptz
);
create index memory_entry_recent on memory_entry (namespace_id, created_at desc, id desc) where superseded_by is null;
create index memory_entry_version on memory_entry (namespace_id, version);
create index memory_entry_account on memory_entry (account_id, id desc);

create table memory_embedding (
  entry_id uuid not null references memory_entry on delete cascade,
  namespace_id uuid not null,
  model_key text not null,
  -- Grows in commit order within a namespace, so that readers fetch only new rows.
  stored bigint generated always as identity,
  -- Unit length, four bytes each, little-endian.
  vector bytea not null,
  primary key (entry_id, model_key)
);
create index memory_embedding_stored on memory_embedding (namespace_id, model_key, stored);

create table memory_snapshot (
  id uuid primary key,
  namespace_id uuid not null references memory_namespace on delete cascade,
  account_id uuid not null references account,
  build bigint not null,
  status text not null check (status in ('building', 'ready')),
  version bigint not null,
  entries integer not null,
  -- The model of the vectors; null for a snapshot that is read newest first.
  model_key text,
  created_at timestamptz not null default now(),
  ready_at timestamptz,
  unique (namespace_id, build)
);
create index memory_snapshot_building on memory_snapshot (created_at) where status = 'building';

create table memory_grant (
  id uuid primary key,
  namespace_id uuid not null references memory_namespace on delete cascade,
  account_id uuid not null references account,
  api_key_id uuid not null references api_key,
  access text not null check (access in ('read', 'write')),
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
create unique index memory_grant_live on memory_grant (namespace_id, api_key_id, access) where revoked_at is null;

-- The memory that a task was given. Rows outlive snapshot and namespace, because audits name them.
create table task_memory (
  task_id uuid primary key,
  account_id uuid not null,
  api_key_id uuid not null,
  namespace_id uuid not null,
  snapshot_id uuid,
  outcome text not null check (outcome in ('attached', 'given', 'empty', 'denied', 'unavailable', 'refused')),
  created_at timestamptz not null default now(),
  decided_at timestamptz
);
create index task_memory_snapshot on task_memory (snapshot_id);

-- The version of the memory grants that a gateway applies; null for one that serves no memory.
alter table gateway add column memory_version bigint;

insert into cache_version (name) values ('memory');
