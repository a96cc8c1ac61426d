-- A model whose files an operator uploads. The row is deleted when the import completes, or with its files after 24 h.
create table model_import (
  -- Becomes the id of the version.
  id uuid primary key,
  account_id uuid not null references account,
  paths text[] not null,
  -- True while its files are being removed: the import can no longer be completed.
  expired boolean not null default false,
  created_at timestamptz not null default now()
);
create index model_import_created on model_import (created_at);

-- When the leftover files of an ended run's attempts were removed.
alter table training_run add column files_swept_at timestamptz;
create index training_run_unswept on training_run (completed_at)
  where files_swept_at is null and completed_at is not null and deleted_at is null;
