-- The stage whose result a resumed run has taken over: the one that a node made it for, whatever was resumed in between.
-- Where that was never paid for, its node's owner is paid when the resumed run succeeds.
alter table cohort_stage add column taken_from uuid;
create index cohort_stage_taken_from on cohort_stage (taken_from) where taken_from is not null;
