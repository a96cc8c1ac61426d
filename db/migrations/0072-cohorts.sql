-- A cohort: one durable run of a graph of models over several nodes. Its plan, its stages, its hand-overs, its events.
-- Both checks get one additional value, so existing rows need no validation.
alter table task drop constraint task_surface_check;
alter table task add constraint task_surface_check
  check (surface in ('rest', 'openai', 'mcp', 'action', 'cohort')) not valid;
alter table lease drop constraint lease_kind_check;
alter table lease add constraint lease_kind_check check (kind in ('task', 'job', 'stage')) not valid;

create table cohort_plan (
  id uuid primary key,
  account_id uuid not null references account,
  -- As in schemas/cohort.ts: the request with its defaults, and the response. Values from callers are json, because
  -- models read the members of an input in the order in which they were sent, and jsonb does not preserve it.
  request json not null,
  plan jsonb not null,
  feasible boolean not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
create index cohort_plan_expiry on cohort_plan (expires_at);

create table cohort (
  id uuid primary key,
  task_id uuid not null unique references task on delete cascade,
  account_id uuid not null references account,
  user_id text not null,
  plan_id uuid not null,
  name text,
  -- The graph, with its defaults: a plan may be deleted before its cohort.
  request json not null,
  status text not null default 'queued'
    check (status in ('queued', 'preparing', 'running', 'finishing', 'succeeded', 'failed', 'cancelled')),
  input json not null,
  labels jsonb not null default '{}',
  keep_outputs boolean not null default false,
  resume_of uuid,
  deadline_at timestamptz not null,
  estimated_latency_ms double precision not null,
  critical_path jsonb not null default '[]',
  replans integer not null default 0,
  error jsonb,
  waiting_for text,
  -- The number of its last event.
  event_sequence integer not null default 0,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  completed_at timestamptz
);
create index cohort_open on cohort (created_at) where status not in ('succeeded', 'failed', 'cancelled');
create index cohort_account on cohort (account_id, id);

create table cohort_stage (
  -- The subject of its leases and of its ledger entries.
  id uuid primary key,
  cohort_id uuid not null references cohort on delete cascade,
  account_id uuid not null,
  -- The name of the stage in its graph.
  name text not null,
  -- The stage's position in a topological order.
  position integer not null,
  specification json not null,
  -- The endpoint that the stage calls now: its own, or one of its fallbacks.
  endpoint_id uuid not null,
  model_key text not null,
  price_micro bigint not null,
  -- 0 for the stage's own endpoint, otherwise the number of the fallback.
  fallback integer not null default 0,
  status text not null default 'pending'
    check (status in ('pending', 'called', 'loading', 'waiting', 'running', 'succeeded', 'failed', 'skipped', 'cancelled')),
  attempt integer not null default 1,
  -- The node of the current attempt, or the node in the plan.
  node_id uuid,
  planned_node_id uuid,
  model_state text,
  called_at timestamptz,
  claimed_at timestamptz,
  loaded_at timestamptz,
  started_at timestamptz,
  completed_at timestamptz,
  run_ms double precision,
  result bytea,
  output_kept boolean not null default false,
  error jsonb,
  paid_to uuid,
  unique (cohort_id, name)
);

create table cohort_edge (
  id uuid primary key,
  cohort_id uuid not null references cohort on delete cascade,
  name text not null,
  -- Null if the value comes from the run's input.
  from_stage_id uuid references cohort_stage on delete cascade,
  from_path text not null,
  to_stage_id uuid not null references cohort_stage on delete cascade,
  to_path text not null,
  template text,
  kind text not null check (kind in ('text', 'json', 'media', 'tokens', 'embedding', 'hidden_state', 'kv_cache')),
  mode text not null default 'transfer' check (mode in ('transfer', 'session')),
  -- The transports that the graph allows; null for all.
  transports jsonb,
  max_bytes bigint not null,
  -- The spaces on both sides, for edges that carry a representation.
  source_space_id uuid,
  target_space_id uuid,
  source_fingerprint text not null,
  target_fingerprint text not null,
  evidence_id uuid,
  min_score double precision not null,
  state text not null default 'planned' check (state in
    ('planned', 'negotiating', 'negotiated', 'connecting', 'open', 'transferred', 'consumed', 'failed')),
  attempt integer not null default 1,
  failure text,
  transport text,
  -- The payload, once its producer has announced it; it outlives attempts. Inline payloads are here, relayed ones in
  -- the object store, others on the node that holds them.
  payload bytea,
  payload_key text,
  payload_node_id uuid,
  encoding text,
  size_bytes bigint,
  sha256 text,
  shape jsonb,
  dtype text,
  transfer_ms double precision,
  -- True when no payload will come: its producer was skipped, or its consumer no longer needs it.
  closed boolean not null default false,
  consumed_at timestamptz,
  unique (cohort_id, name)
);
create index cohort_edge_from on cohort_edge (from_stage_id);
create index cohort_edge_to on cohort_edge (to_stage_id);
create index cohort_edge_evidence on cohort_edge (evidence_id) where evidence_id is not null;

create table cohort_event (
  id uuid primary key,
  cohort_id uuid not null references cohort on delete cascade,
  sequence integer not null,
  type text not null,
  stage_name text,
  edge_id uuid,
  node_id uuid,
  attempt integer,
  data jsonb not null default '{}',
  created_at timestamptz not null default now(),
  unique (cohort_id, sequence)
);
