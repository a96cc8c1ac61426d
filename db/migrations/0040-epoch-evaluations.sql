-- What a run measured on its held-out rows after each epoch, while it works and for runs that never complete.
alter table job_epoch add column eval_loss double precision;
alter table job_epoch add column eval_perplexity double precision;
