-- A run's measurements on its held-out rows after each epoch, available during the run and if it never completes.
alter table job_epoch add column eval_loss double precision;
alter table job_epoch add column eval_perplexity double precision;
