-- Lists ordered by id over a subset of all endpoints: those offered to all accounts, those that wait for a review.
create index endpoint_offered on endpoint (id desc)
  where deleted_at is null and visibility = 'public' and review_status = 'approved';
create index endpoint_review on endpoint (review_status, id desc) where deleted_at is null;

-- Uploads that retention searches for.
create index dataset_upload_idle on dataset_upload (created_at) where status in ('initialised', 'failed');
