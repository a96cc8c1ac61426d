-- 0113 could not know whether a disabled version had been ready before. Counting it as ready once keeps base models from
-- being withdrawn.
update model_version set ready_at = created_at where lifecycle_status = 'disabled' and ready_at is null;
-- True while a version is disabled by the account that imported it and was ready or preferred until then: that account may
-- make it ready again without another test.
alter table model_version add column if not exists reopenable boolean not null default false;
