-- The attempts at an edge: what was offered and agreed, and how far each got.
create table cohort_edge_attempt (
  edge_id uuid not null references cohort_edge on delete cascade,
  attempt integer not null,
  state text not null default 'planned' check (state in
    ('planned', 'negotiating', 'negotiated', 'connecting', 'open', 'transferred', 'consumed', 'failed')),
  producer_node_id uuid,
  consumer_node_id uuid,
  producer_offer jsonb,
  consumer_offer jsonb,
  agreed jsonb,
  -- The addresses at which the producer listens, and the key that it presents there.
  candidates jsonb,
  spki_sha256 text,
  ticket_sha256 text,
  ticket_expires_at timestamptz,
  -- The results of the consumer's connection attempts.
  probes jsonb,
  selected text,
  session_id uuid,
  -- The last frame of a session that has been acknowledged.
  acknowledged bigint,
  bytes bigint,
  failure text,
  -- The producer holds its payload until this time; every call of the consumer extends it.
  hold_until timestamptz,
  -- The last call by either side; silence is measured from it.
  called_at timestamptz not null default now(),
  opened_at timestamptz,
  progress_at timestamptz,
  progress_events integer not null default 0,
  created_at timestamptz not null default now(),
  primary key (edge_id, attempt)
);

-- The calls that have taken effect, so that a repeat has no further effect.
create table cohort_edge_call (
  edge_id uuid not null,
  attempt integer not null,
  node_id uuid not null,
  operation text not null,
  phase text not null,
  body_digest bytea not null,
  answer jsonb,
  created_at timestamptz not null default now(),
  primary key (edge_id, attempt, node_id, operation, phase),
  foreign key (edge_id, attempt) references cohort_edge_attempt on delete cascade
);

-- The measured transfer rate between nodes, and until when a pair that could not connect uses the object store.
create table edge_rate (
  from_node_id uuid not null references node on delete cascade,
  to_node_id uuid not null references node on delete cascade,
  ewma_mb_s double precision,
  samples integer not null default 0,
  unreachable_until timestamptz,
  primary key (from_node_id, to_node_id)
);

-- Every write to an edge, to its consumer stage or to its cohort wakes the nodes that wait for changes of the edge.
create function cohort_edge_news() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_edge', new.id::text);
  return null;
end $$;
create trigger cohort_edge_news after update on cohort_edge for each row execute function cohort_edge_news();

create function cohort_stage_ended() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_edge', id::text) from cohort_edge where to_stage_id = new.id;
  return null;
end $$;
create trigger cohort_stage_ended after update of status on cohort_stage for each row
  when (new.status = 'succeeded' and old.status <> 'succeeded') execute function cohort_stage_ended();

create function cohort_ended() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_edge', id::text) from cohort_edge where cohort_id = new.id;
  return null;
end $$;
create trigger cohort_ended after update of status on cohort for each row
  when (new.status in ('succeeded', 'failed', 'cancelled') and old.status <> new.status) execute function cohort_ended();
