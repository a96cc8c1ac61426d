-- No foreign key between generations of a delivery: the first is removed when it is old, even if it was redelivered.
alter table webhook_delivery drop constraint webhook_delivery_redelivery_of_fkey;
alter table webhook_delivery add constraint webhook_delivery_redelivery_of_fkey
  foreign key (redelivery_of) references webhook_delivery on delete set null;
create index webhook_delivery_redelivery_of on webhook_delivery (redelivery_of) where redelivery_of is not null;

-- An event stays while one of its deliveries is still open.
create index webhook_delivery_open_event on webhook_delivery (event_id)
  where status in ('pending', 'delivering', 'retrying');

create index webhook_verification_pending on webhook_verification (window_ends_at) where status = 'pending';
