-- `price_set` is true once an endpoint's owner has set its price. Without a price it costs 0 and cannot become public.
alter table endpoint add column price_set boolean not null default false;
update endpoint set price_set = true where price_micro > 0 or visibility = 'public';
