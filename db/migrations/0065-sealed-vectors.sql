-- Vectors reveal something about their texts, so they are encrypted too. Processes of earlier versions still write
-- `vector` and skip rows without it; a gateway encrypts what they have written.
alter table memory_embedding alter column vector drop not null;
alter table memory_embedding add column sealed bytea;
alter table memory_embedding add constraint memory_embedding_held check (vector is not null or sealed is not null);
create index memory_embedding_plain on memory_embedding (entry_id) where vector is not null;
