-- What the requests that a gateway has admitted, and not booked yet, will cost a key with a budget. Rows of a gateway whose
-- lease has run out count no more, and go with its row.
create table key_hold (
  key_id uuid not null,
  gateway_id uuid not null references gateway on delete cascade,
  held_micro bigint not null,
  primary key (key_id, gateway_id)
);
