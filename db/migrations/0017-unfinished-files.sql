-- A model whose files an operator uploads: the row goes when the import is complete, or with its files after 24 hours.
create table model_import (
  -- Becomes the id of the version.
  id uuid primary key,
  account_id uuid not null references account,
  paths text[] not null,
  -- Its files are being removed: it cannot be completed any more.
  expired boolean not null default false,
  created_at timestamptz not null default now()
);
create index model_import_created on model_import (created_at);

-- When what attempts of an ended run left behind was removed.
alter table training_run add column files_swept_at timestamptz;
create index training_run_unswept on training_run (completed_at)
  where files_swept_at is null and completed_at is not null and deleted_at is null;
