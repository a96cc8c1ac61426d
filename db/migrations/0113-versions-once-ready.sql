-- An import that was ever ready is a base model for all accounts and cannot be deleted; one that never was can be
-- withdrawn. A trigger records the time, because older processes also move versions during an upgrade.
alter table model_version add column ready_at timestamptz;
update model_version set ready_at = created_at where lifecycle_status in ('ready', 'preferred');
create function version_ready() returns trigger language plpgsql as $$
begin
  new.ready_at := coalesce(new.ready_at, now());
  return new;
end $$;
create trigger version_ready before insert or update of lifecycle_status on model_version for each row
  when (new.lifecycle_status in ('ready', 'preferred')) execute function version_ready();
