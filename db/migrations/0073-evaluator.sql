-- The spaces that models produce and accept, the evidence that one space can replace another, and the runs that found
-- it.

-- The spaces of a version. Each registration with different content is a new generation; earlier generations stay for
-- the cohorts that run with them.
create table model_space (
  id uuid primary key,
  version_id uuid not null references model_version on delete cascade,
  -- The id under which the space was registered: a hub import's, or the version's.
  model_config_id uuid not null,
  generation integer not null,
  name text not null,
  role text not null check (role in ('produces', 'accepts', 'both')),
  kind text not null check (kind in ('text', 'json', 'media', 'tokens', 'embedding', 'hidden_state', 'kv_cache')),
  -- Spaces are equal when their fingerprints are.
  fingerprint text not null,
  -- As in schemas/cohort-evaluator.ts.
  specification jsonb not null,
  status text not null default 'active' check (status in ('active', 'superseded', 'revoked')),
  -- 'platform' for spaces that the platform derived from the files.
  registered_by text not null,
  created_at timestamptz not null default now(),
  unique (version_id, generation, name)
);
create index model_space_active on model_space (fingerprint) where status = 'active';

create table compatibility_evidence (
  id uuid primary key,
  source_space_id uuid not null references model_space on delete cascade,
  target_space_id uuid not null references model_space on delete cascade,
  source_fingerprint text not null,
  target_fingerprint text not null,
  relation text not null check (relation in ('identity', 'orthogonal', 'affine', 'external')),
  metric text not null check (metric in ('consumer_agreement', 'retrieval_overlap', 'cosine', 'r2')),
  score double precision not null,
  -- Null for an identity: {object_key, sha256, size_bytes, input_dimensions, output_dimensions}.
  adapter jsonb,
  -- The registration without its adapter, and its digest, which identifies a repeat.
  statement jsonb not null,
  digest text not null,
  status text not null default 'active' check (status in ('active', 'superseded', 'revoked')),
  supersedes uuid,
  run_id uuid,
  valid_until timestamptz not null,
  created_at timestamptz not null default now(),
  ended_at timestamptz
);
-- The newest evidence of a pair counts.
create unique index compatibility_evidence_active on compatibility_evidence (source_fingerprint, target_fingerprint, metric)
  where status = 'active';
create index compatibility_evidence_pair on compatibility_evidence (source_fingerprint, target_fingerprint, id desc);

-- The response to a revocation, stored for repeats.
create table evaluator_revocation (
  id uuid primary key,
  kind text not null check (kind in ('model', 'evidence')),
  -- A version, or evidence.
  subject_id uuid not null,
  -- The generation of the model that was revoked; 0 for evidence.
  generation integer not null,
  effect text not null check (effect in ('immediate', 'drain')),
  reason text not null,
  evidence_revoked uuid[] not null default '{}',
  edges_failed integer not null default 0,
  cohorts_affected uuid[] not null default '{}',
  created_at timestamptz not null default now(),
  unique (kind, subject_id, generation)
);

-- The hand-overs that the revocation of a space stops.
create index cohort_edge_source on cohort_edge (source_space_id) where source_space_id is not null;
create index cohort_edge_target on cohort_edge (target_space_id) where target_space_id is not null;
