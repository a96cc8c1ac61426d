-- Whether the node that joins with a token serves its own account or, when the operator says so, everybody.
alter table node_token add column sharing text not null default 'dedicated'
  check (sharing in ('dedicated', 'shared'));
-- Tokens made before were for nodes that serve everybody.
update node_token set sharing = 'shared' where node_id is null;
