-- The node that joins with a token serves its own account or, if the operator says so, all accounts.
alter table node_token add column sharing text not null default 'dedicated'
  check (sharing in ('dedicated', 'shared'));
-- Tokens created before this migration were for nodes that serve all accounts.
update node_token set sharing = 'shared' where node_id is null;
