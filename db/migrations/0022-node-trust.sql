-- Trusts nodes only with the work that was handed to them (docs/security.md).

-- A `dedicated` node works only for its own account; an operator may mark it `shared`, to work for all accounts.
-- Nodes that joined before this migration served all accounts, and continue to do so.
alter table node add column sharing text not null default 'dedicated'
  check (sharing in ('dedicated', 'shared'));
update node set sharing = 'shared';

-- Models whose load on a node the platform ordered or joined. Only these count as warm there, and the node gets only
-- their specifications and may poll only their queues.
create table node_model_order (
  node_id uuid not null references node,
  model_key text not null,
  ordered_at timestamptz not null default now(),
  primary key (node_id, model_key)
);
create index node_model_order_model on node_model_order (model_key);

-- Tasks and jobs that were handed to a node, recorded before the node receives them. The node can claim only these.
create table node_dispatch (
  kind text not null check (kind in ('task', 'job')),
  subject_id uuid not null,
  node_id uuid not null references node,
  dispatched_at timestamptz not null default now(),
  primary key (subject_id, node_id)
);
create index node_dispatch_age on node_dispatch (dispatched_at);
