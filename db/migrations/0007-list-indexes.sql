-- Lists that run by id over a part of all endpoints: what is offered to everybody, what waits for a review.
create index endpoint_offered on endpoint (id desc)
  where deleted_at is null and visibility = 'public' and review_status = 'approved';
create index endpoint_review on endpoint (review_status, id desc) where deleted_at is null;

-- Uploads that retention looks for.
create index dataset_upload_idle on dataset_upload (created_at) where status in ('initialised', 'failed');
