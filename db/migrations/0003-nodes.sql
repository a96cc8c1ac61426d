create table node (
  id uuid primary key,
  account_id uuid not null references account,
  name text not null,
  public_key bytea not null unique,
  status text not null check (status in ('active', 'draining', 'removed')),
  hardware text not null check (hardware in ('cpu', 'gpu', 'xpu')),
  inventory jsonb not null,
  runtime_version text not null,
  joined_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now()
);

create table node_token (
  token_hash bytea primary key,
  account_id uuid not null references account,
  node_id uuid references node,
  expires_at timestamptz not null,
  used_at timestamptz,
  created_at timestamptz not null default now()
);

-- Digests of accepted node signatures, stored while their timestamp would still be accepted.
create table node_signature_seen (
  digest bytea primary key,
  expires_at timestamptz not null
);
create index node_signature_seen_expires on node_signature_seen (expires_at);

-- The last report of a node, in the form that placement reads (domain/placement.ts).
create table node_state (
  node_id uuid primary key references node,
  gateway_id uuid not null,
  snapshot jsonb not null,
  updated_at timestamptz not null default now()
);

-- The exclusive, fenced right of a node to work on a task or job (design 10.10).
create table lease (
  token uuid primary key,
  kind text not null check (kind in ('task', 'job')),
  subject_id uuid not null,
  account_id uuid not null references account,
  node_id uuid not null references node,
  attempt integer not null,
  state text not null check (state in ('active', 'completed', 'failed', 'revoked', 'expired')),
  lease_s integer not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  closed_at timestamptz,
  -- Set when the node has confirmed that the work's processes are gone.
  released_at timestamptz,
  unique (kind, subject_id, attempt)
);
create unique index lease_active on lease (kind, subject_id) where state = 'active';
create index lease_expiry on lease (expires_at) where state = 'active';
