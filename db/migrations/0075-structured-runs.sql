-- Runs that fit a map between two spaces and judge it.
create table structured_run (
  id uuid primary key,
  -- The account of the texts.
  account_id uuid not null references account,
  -- As in schemas/cohort-evaluator.ts, with its defaults.
  request jsonb not null,
  source_space_id uuid not null references model_space on delete cascade,
  target_space_id uuid not null references model_space on delete cascade,
  -- The versions that produce the vectors, and the one that judges them.
  source_version_id uuid not null,
  target_version_id uuid not null,
  consumer_version_id uuid,
  dataset_id uuid not null,
  dataset_digest text not null,
  status text not null default 'queued' check (status in ('queued', 'embedding', 'fitting', 'judging', 'registered', 'rejected', 'failed')),
  -- The step that a node is working on; only that node may read the run.
  step text check (step in ('source', 'target', 'fit', 'judge')),
  step_node_id uuid,
  -- The map and its verdict, once they are known.
  fit jsonb,
  verdict jsonb,
  -- Codes for why the run was rejected or failed.
  reasons jsonb not null default '[]',
  evidence_id uuid,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  completed_at timestamptz
);
create index structured_run_open on structured_run (created_at) where status not in ('registered', 'rejected', 'failed');
