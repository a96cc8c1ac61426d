-- Tasks that no node could take: since when they wait, and when their workflow was last signalled that a node has room.
alter table task add column waiting_since timestamptz;
alter table task add column woken_at timestamptz;
create index task_unplaced on task (waiting_since, id) where waiting_since is not null and status = 'queued';
