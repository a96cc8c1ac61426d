-- The health of cohorts counts what failed and what was relayed in the last hour.
create index cohort_event_edges on cohort_event (created_at) where type in ('edge.failed', 'edge.relayed');
