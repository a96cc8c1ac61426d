-- Whether the owner of an endpoint has named its price; one that was never named is 0 and goes public only once it is.
alter table endpoint add column price_set boolean not null default false;
update endpoint set price_set = true where price_micro > 0 or visibility = 'public';
