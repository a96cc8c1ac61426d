-- The time since which the consumer of an attempt has kept calling without any call by the producer.
alter table cohort_edge_attempt add column alone_since timestamptz;
