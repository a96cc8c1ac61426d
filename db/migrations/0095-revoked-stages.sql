-- A node that works on a stage is told at once that nobody waits for it any more: the notification says the stage and the
-- node, in two words.
create function stage_lease_revoked() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_edge', new.subject_id::text || ' ' || new.node_id::text);
  return null;
end $$;
create trigger stage_lease_revoked after update of state on lease for each row
  when (new.kind = 'stage' and new.state = 'revoked' and old.state = 'active') execute function stage_lease_revoked();
