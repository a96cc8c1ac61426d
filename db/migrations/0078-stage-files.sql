-- The files of a stage's result: the name that the result and hand-overs use for each file, and where it is stored.
alter table cohort_stage add column outputs jsonb;

-- Notifies a node that still holds a payload as soon as it is no longer needed. In addition to the id of the edge, the
-- notification contains the attempt and the node.
create function cohort_edge_closed() returns trigger language plpgsql as $$
begin
  perform pg_notify('hearth_edge', new.id::text || ' ' || new.attempt || ' ' || held.node_id)
  from (
    select new.payload_node_id as node_id where new.payload_node_id is not null
    union
    select producer_node_id from cohort_edge_attempt
    where edge_id = new.id and attempt = new.attempt and producer_node_id is not null
  ) held;
  return null;
end $$;
create trigger cohort_edge_closed after update of closed on cohort_edge for each row
  when (new.closed and not old.closed) execute function cohort_edge_closed();
