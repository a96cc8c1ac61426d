-- Models that nodes hold at the time of this migration were trusted before, so they count as ordered.
insert into node_model_order (node_id, model_key)
select node_state.node_id, model ->> 'model_key'
from node_state, jsonb_array_elements(node_state.snapshot -> 'models') as model
where jsonb_typeof(node_state.snapshot -> 'models') = 'array' and model ->> 'model_key' is not null
on conflict do nothing;

-- Models whose files a node may read for work other than serving them: the base or the sources of a job that it has
-- claimed, and the model that a candidate's logits are compared with.
create table node_model_grant (
  node_id uuid not null references node,
  model_key text not null,
  expires_at timestamptz not null,
  primary key (node_id, model_key)
);
create index node_model_grant_expires on node_model_grant (expires_at);

-- Work that is in progress on nodes was handed to them.
insert into node_dispatch (kind, subject_id, node_id)
select kind, subject_id, node_id from lease where state = 'active' on conflict do nothing;
