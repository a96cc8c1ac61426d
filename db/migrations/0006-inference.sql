-- Free-form bodies are bytes: jsonb cannot hold \u0000 and would cost a parse.
create table task (
  id uuid primary key,
  account_id uuid not null references account,
  endpoint_id uuid not null references endpoint,
  status text not null check (status in ('queued', 'assigned', 'claimed', 'preparing', 'downloading_model', 'loading_model', 'running', 'generating', 'uploading_output', 'succeeded', 'failed')),
  status_detail jsonb,
  surface text not null check (surface in ('rest', 'openai', 'mcp', 'action')),
  model_key text not null,
  model_state text check (model_state in ('resident', 'cached', 'cold')),
  input bytea,
  result bytea,
  error text,
  -- True if the task failed because it waited too long.
  expired boolean not null default false,
  price_micro bigint not null default 0,
  node_id uuid references node,
  -- The gateway that finishes this task itself (warm path); null if a workflow does.
  gateway_id uuid,
  attempt integer not null default 0,
  inference_time_ms double precision,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  completed_at timestamptz
);
create index task_account on task (account_id, id desc);
create index task_open on task (created_at) where status not in ('succeeded', 'failed');
create index task_gateway_open on task (gateway_id) where gateway_id is not null and status not in ('succeeded', 'failed');

-- Double entry: the entries of one kind and task sum to zero (design 10.10).
create table ledger_entry (
  id uuid primary key,
  task_id uuid not null,
  kind text not null check (kind in ('hold', 'capture', 'payout', 'refund')),
  -- The purse: account:<id>, escrow, platform or owner:<account id>.
  purse text not null,
  amount_micro bigint not null,
  created_at timestamptz not null default now(),
  unique (task_id, kind, purse)
);

-- Counters grow by appended rows, which the retention schedule folds, so the request path has no hot row.
create table usage_delta (
  id bigint generated always as identity primary key,
  account_id uuid not null,
  endpoint_id uuid not null,
  enqueued integer not null default 0,
  succeeded integer not null default 0,
  failed integer not null default 0,
  expired integer not null default 0,
  tokens bigint not null default 0,
  created_at timestamptz not null default now()
);
create index usage_delta_account on usage_delta (account_id);

create table usage_total (
  account_id uuid primary key references account,
  enqueued bigint not null default 0,
  succeeded bigint not null default 0,
  failed bigint not null default 0,
  expired bigint not null default 0
);

create table uploaded_input (
  id uuid primary key,
  account_id uuid not null references account,
  object_key text not null,
  content_type text not null,
  size_bytes bigint not null,
  created_at timestamptz not null default now()
);
create index uploaded_input_created on uploaded_input (created_at);
