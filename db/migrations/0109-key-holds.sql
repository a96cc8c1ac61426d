-- The cost, for a key with a budget, of requests that a gateway has admitted but not booked yet. Rows of a gateway
-- whose lease has expired no longer count, and are deleted with its row.
create table key_hold (
  key_id uuid not null,
  gateway_id uuid not null references gateway on delete cascade,
  held_micro bigint not null,
  primary key (key_id, gateway_id)
);
