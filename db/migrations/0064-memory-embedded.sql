-- The model of the newest vector of an entry. Gateways look every few seconds for entries without one, over all accounts.
alter table memory_entry add column embedded_with text;
create index memory_entry_unembedded on memory_entry (namespace_id, version)
  where embedded_with is null and superseded_by is null;
