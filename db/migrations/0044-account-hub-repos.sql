-- The private and gated repositories of the hub that an account may use with the platform's token.
alter table account add column hub_repos text[] not null default '{}';
