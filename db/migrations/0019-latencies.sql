-- The time of successful inferences, appended with the counts and folded into a moving mean per endpoint.
alter table usage_delta add column inference_ms double precision not null default 0;
alter table endpoint add column latency_ms double precision;
