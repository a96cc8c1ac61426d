-- The model of an entry's newest vector. Every few seconds gateways search all accounts for entries without one.
alter table memory_entry add column embedded_with text;
create index memory_entry_unembedded on memory_entry (namespace_id, version)
  where embedded_with is null and superseded_by is null;
