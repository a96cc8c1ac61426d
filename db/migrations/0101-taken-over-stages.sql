-- The stage whose result a resumed run has taken over: the one that a node made it for, whatever was resumed in between.
-- The owner of its node is paid when the resumed run succeeds, unless that result was paid for before.
alter table cohort_stage add column taken_from uuid;
create index cohort_stage_taken_from on cohort_stage (taken_from) where taken_from is not null;
