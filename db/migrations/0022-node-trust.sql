-- Nodes are trusted no further than their work (docs/security.md).

-- A `dedicated` node works for its own account alone; an operator may mark it `shared`, for the work of everybody.
-- Nodes that joined before served everybody, and go on so.
alter table node add column sharing text not null default 'dedicated'
  check (sharing in ('dedicated', 'shared'));
update node set sharing = 'shared';

-- Models whose load on a node the platform ordered or joined: only these count as warm there, only their specification is
-- given to that node, and only their queues may be polled by it.
create table node_model_order (
  node_id uuid not null references node,
  model_key text not null,
  ordered_at timestamptz not null default now(),
  primary key (node_id, model_key)
);
create index node_model_order_model on node_model_order (model_key);

-- Tasks and jobs that were handed to a node, recorded before the node hears of them: only these can be claimed by it.
create table node_dispatch (
  kind text not null check (kind in ('task', 'job')),
  subject_id uuid not null,
  node_id uuid not null references node,
  dispatched_at timestamptz not null default now(),
  primary key (subject_id, node_id)
);
create index node_dispatch_age on node_dispatch (dispatched_at);
