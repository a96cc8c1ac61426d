-- The list of nodes in the pool without removed ones, and the jobs that a node has run, newest first.
create index node_present on node (id desc) where status <> 'removed';
create index lease_job_node on lease (node_id, created_at desc) where kind = 'job';
