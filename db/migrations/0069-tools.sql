-- The tools that the platform offers: those of its catalog, and those that operators added.
create table tool (
  slug text primary key,
  origin text not null check (origin in ('catalog', 'operator')),
  -- As in schemas/catalog-tool.ts. Nodes read the definitions of operators' tools from here.
  definition jsonb not null,
  endpoint_id uuid not null references endpoint,
  removed_at timestamptz,
  updated_at timestamptz not null default now()
);
