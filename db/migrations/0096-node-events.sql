-- The events of nodes, for followers of the whole platform. A link that moves directly to another gateway keeps its
-- state and causes no event.
create table node_event (
  id uuid primary key default uuidv7(),
  account_id uuid not null references account,
  node_id uuid not null references node,
  type text not null check (type in
    ('node.joined', 'node.connected', 'node.disconnected', 'node.draining', 'node.resumed', 'node.removed')),
  created_at timestamptz not null default now()
);
create index node_event_created on node_event (created_at);
create index node_event_account on node_event (account_id, id);

-- The feed of all accounts; like the feed of one account, it leaves out successful requests.
create index event_feed_of_all on event (id) where type <> 'inference.task.succeeded';

-- An account's lists by type, so that a rare type is not searched for among all others.
create index event_feed_type on event (account_id, type, id desc) where type <> 'inference.task.succeeded';

create function node_told() returns trigger language plpgsql as $$
begin
  insert into node_event (account_id, node_id, type) values (new.account_id, new.id, case
    when tg_op = 'INSERT' then 'node.joined'
    when new.status = 'active' then 'node.resumed'
    else 'node.' || new.status
  end);
  return null;
end $$;
create trigger node_joined after insert on node for each row execute function node_told();
create trigger node_moved after update of status on node for each row
  when (new.status is distinct from old.status) execute function node_told();

create function node_link_told() returns trigger language plpgsql as $$
begin
  insert into node_event (account_id, node_id, type)
  select account_id, id, case tg_op when 'INSERT' then 'node.connected' else 'node.disconnected' end
  from node where id = coalesce(new.node_id, old.node_id);
  return null;
end $$;
create trigger node_link_told after insert or delete on node_state for each row execute function node_link_told();

create trigger event_news after insert on node_event referencing new table as fresh
  for each statement execute function event_news();
