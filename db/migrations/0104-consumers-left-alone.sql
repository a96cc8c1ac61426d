-- Since when the consumer of an attempt has called again and again without a call of the producer.
alter table cohort_edge_attempt add column alone_since timestamptz;
