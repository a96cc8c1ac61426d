-- How nodes serve the endpoint's model; null for the defaults. One endpoint of a version sets it for all of them.
alter table endpoint add column serving jsonb;
