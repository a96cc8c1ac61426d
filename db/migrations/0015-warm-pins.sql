-- The number of nodes on which operators want an endpoint's model loaded, whatever other models need the memory.
alter table endpoint add column min_warm integer not null default 0 check (min_warm >= 0);
create index endpoint_min_warm on endpoint (model_key) where min_warm > 0 and deleted_at is null;

-- Which nodes keep which models loaded for that. The platform decides, and sends its decisions over the nodes' links.
create table warm_pin (
  model_key text not null,
  node_id uuid not null references node,
  -- The time since which the node has no link; null while it has one.
  missing_since timestamptz,
  created_at timestamptz not null default now(),
  primary key (model_key, node_id)
);
create index warm_pin_node on warm_pin (node_id);
