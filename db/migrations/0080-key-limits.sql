-- A key may expire and be limited: requests and tokens a minute, credits a month, and the models that it may ask.
alter table api_key add column expires_at timestamptz, add column limits jsonb, add column last_used_at timestamptz;

-- What all gateways have admitted for a limited key in a minute; rows are of use for that minute alone.
create table key_minute (
  key_id uuid not null,
  minute timestamptz not null,
  requests bigint not null default 0,
  tokens bigint not null default 0,
  primary key (key_id, minute)
);
create index key_minute_age on key_minute (minute);

-- Counts carry their key and what they cost, and are folded into the month. Gateways of earlier versions write neither.
alter table usage_delta add column key_id uuid, add column cost_micro bigint not null default 0;
create table key_month (
  key_id uuid not null,
  month date not null,
  spent_micro bigint not null default 0,
  primary key (key_id, month)
);
