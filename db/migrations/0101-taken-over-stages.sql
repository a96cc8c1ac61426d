-- The stage whose result a resumed run has taken over: the original one that a node worked on, across any number of
-- resumed runs. The node's owner is paid when the resumed run succeeds, unless that result has been paid for already.
alter table cohort_stage add column taken_from uuid;
create index cohort_stage_taken_from on cohort_stage (taken_from) where taken_from is not null;
