-- The hand-overs of ended cohorts kept their state. Mark them as failed with their cohort, as happens from now on when
-- a cohort ends.
update cohort_edge_attempt tried set state = 'failed', failure = 'cancelled'
  from cohort_edge edge join cohort on cohort.id = edge.cohort_id
  where tried.edge_id = edge.id and tried.attempt = edge.attempt and edge.state not in ('consumed', 'failed')
    and cohort.status in ('succeeded', 'failed', 'cancelled');
update cohort_edge edge set state = 'failed', failure = 'cancelled'
  from cohort
  where cohort.id = edge.cohort_id and edge.state not in ('consumed', 'failed')
    and cohort.status in ('succeeded', 'failed', 'cancelled');
