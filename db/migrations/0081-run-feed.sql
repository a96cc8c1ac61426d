-- A single order for everything that is reported about a run. A writer locks the run's row before it takes a number, so
-- numbers become visible in order, and a reader that has read up to a number misses nothing. Existing rows are numbered
-- table by table.
create sequence job_place;

alter table job_event add column place bigint not null default nextval('job_place');
alter table job_epoch add column place bigint not null default nextval('job_place');
alter table job_log add column place bigint not null default nextval('job_place');
alter table training_run add column place bigint not null default nextval('job_place');
-- The progress of the current attempt, as its node last reported it, with its own place in the order.
alter table training_run add column progress jsonb;
alter table training_run add column progress_place bigint;

alter table job_event alter column place drop default;
alter table job_epoch alter column place drop default;
alter table job_log alter column place drop default;
alter table training_run alter column place drop default;

create index job_event_place on job_event (job_id, place);
create index job_epoch_place on job_epoch (job_id, place);
create index job_log_place on job_log (job_id, place);

create function job_record_placed() returns trigger language plpgsql as $$
begin
  perform 1 from training_run where id = new.job_id for no key update;
  new.place := nextval('job_place');
  return new;
end $$;
create trigger job_record_placed before insert on job_event for each row execute function job_record_placed();
create trigger job_record_placed before insert on job_log for each row execute function job_record_placed();
create trigger job_record_placed before insert on job_epoch for each row execute function job_record_placed();
-- A later attempt reports its epochs again: notify only if the values changed.
create trigger job_record_changed before update on job_epoch for each row
  when ((new.train_loss, new.val_loss, new.eval_loss, new.eval_perplexity)
    is distinct from (old.train_loss, old.val_loss, old.eval_loss, old.eval_perplexity))
  execute function job_record_placed();

create function training_run_placed() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' or (new.status, new.attempt, new.waiting_reason) is distinct from (old.status, old.attempt, old.waiting_reason) then
    new.place := nextval('job_place');
  end if;
  if tg_op = 'UPDATE' and new.progress is distinct from old.progress then
    new.progress_place := nextval('job_place');
  end if;
  return new;
end $$;
create trigger training_run_placed before insert or update on training_run for each row execute function training_run_placed();

-- Wakes the followers of a run once per statement.
create function job_record_news() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_run', job_id::text) from (select distinct job_id from fresh) job;
  return null;
end $$;
create trigger job_record_news after insert on job_event referencing new table as fresh
  for each statement execute function job_record_news();
create trigger job_record_news after insert on job_log referencing new table as fresh
  for each statement execute function job_record_news();
create trigger job_record_news after insert on job_epoch referencing new table as fresh
  for each statement execute function job_record_news();
create trigger job_record_renewed after update on job_epoch referencing new table as fresh
  for each statement execute function job_record_news();

create function training_run_news() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_run', new.id::text);
  return null;
end $$;
create trigger training_run_news after update on training_run for each row
  when ((new.place, new.progress_place, new.deleted_at) is distinct from (old.place, old.progress_place, old.deleted_at))
  execute function training_run_news();
