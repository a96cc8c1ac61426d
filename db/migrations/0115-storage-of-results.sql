-- The bytes of an account's result files, so that no upload has to add up all its tasks. A trigger writes a row for
-- each task, because older processes also store results during an upgrade, and uploads fold the rows into the total.
-- Appending rows instead of updating the total keeps tasks that end at the same time from waiting for each other.
create table result_bytes (account_id uuid primary key references account, bytes bigint not null);
create table result_bytes_delta (account_id uuid not null, bytes bigint not null);
create index result_bytes_delta_account on result_bytes_delta (account_id) include (bytes);

create function output_bytes(outputs jsonb) returns bigint language sql immutable as $$
  select coalesce(sum((file ->> 'size_bytes')::bigint), 0)::bigint
  from jsonb_array_elements(case jsonb_typeof(outputs) when 'array' then outputs else '[]' end) file
$$;
create function task_output_bytes() returns trigger language plpgsql as $$
begin
  insert into result_bytes_delta (account_id, bytes)
  values (new.account_id, output_bytes(new.outputs) - output_bytes(old.outputs));
  return null;
end $$;
create trigger task_output_bytes after update of outputs on task for each row
  when (new.outputs is distinct from old.outputs) execute function task_output_bytes();

insert into result_bytes_delta (account_id, bytes)
select account_id, sum(output_bytes(outputs)) from task where outputs is not null group by account_id;
-- Nothing else uses this index.
drop index task_with_outputs;
