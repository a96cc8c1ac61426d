-- The measured memory of nodes and of their model servers and runs over time, in buckets of three sizes.
-- Each gateway writes rows of its own with everything that it saw in a bucket. So a repeated write changes nothing, and
-- a node may report to another gateway at any time. Readers combine the rows of a bucket.
create table node_memory (
  node_id uuid not null,
  bucket_s integer not null,
  bucket_at timestamptz not null,
  kind text not null check (kind in ('node', 'server', 'run')),
  -- The key of the model, or the id of the run; empty for the whole node.
  key text not null,
  gateway_id uuid not null,
  samples integer not null,
  ram_avg_mb integer,
  ram_max_mb integer,
  vram_avg_mb integer,
  vram_max_mb integer,
  -- Only for the whole node: its budget for models and runs, and how much of it they reserve.
  reserved_max_mb integer,
  total_mb integer,
  expires_at timestamptz not null,
  primary key (node_id, bucket_s, bucket_at, kind, key, gateway_id)
) with (fillfactor = 80);
create index node_memory_expires on node_memory (expires_at);
