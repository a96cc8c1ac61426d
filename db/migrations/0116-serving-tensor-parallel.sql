-- The number of GPUs on one node that the serving of an endpoint gives to this version; null for the default.
-- A trigger copies it from the endpoint, so that placement reads it along with the memory.
alter table model_version add column tensor_parallel integer;

create function note_tensor_parallel() returns trigger language plpgsql as $$
begin
  update model_version set tensor_parallel = (
    select max((serving ->> 'tensor_parallel')::integer) from endpoint
    where version_id = new.version_id and deleted_at is null
  ) where id = new.version_id;
  return null;
end $$;
create trigger endpoint_serving after update of serving, deleted_at on endpoint for each row
  when (old.serving ->> 'tensor_parallel' is distinct from new.serving ->> 'tensor_parallel'
    or (new.serving is not null and old.deleted_at is distinct from new.deleted_at))
  execute function note_tensor_parallel();
create trigger endpoint_serving_new after insert on endpoint for each row
  when (new.serving ->> 'tensor_parallel' is not null) execute function note_tensor_parallel();
