-- A key may expire and have limits: requests and tokens per minute, credits per month, and the models that it may call.
alter table api_key add column expires_at timestamptz, add column limits jsonb, add column last_used_at timestamptz;

-- The requests and tokens that all gateways have admitted for a limited key in a minute; a row is used only during it.
create table key_minute (
  key_id uuid not null,
  minute timestamptz not null,
  requests bigint not null default 0,
  tokens bigint not null default 0,
  primary key (key_id, minute)
);
create index key_minute_age on key_minute (minute);

-- Counts include their key and cost, and are folded into the month. Gateways of earlier versions write neither.
alter table usage_delta add column key_id uuid, add column cost_micro bigint not null default 0;
create table key_month (
  key_id uuid not null,
  month date not null,
  spent_micro bigint not null default 0,
  primary key (key_id, month)
);
