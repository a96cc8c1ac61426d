-- One row per transfer between purses instead of two: a chat books three transfers, and the two indexes on each of six
-- entries were the larger part of writing it (measured). Older entries stay where they are, and gateways that have not
-- been upgraded yet continue to write them.
create table ledger_transfer (
  task_id uuid not null,
  kind text not null check (kind in ('hold', 'capture', 'payout', 'refund')),
  -- The purse: account:<id>, escrow, platform or owner:<account id>.
  from_purse text not null,
  to_purse text not null,
  amount_micro bigint not null check (amount_micro > 0),
  created_at timestamptz not null default now(),
  primary key (task_id, kind)
);

-- Double entry: the lines of one kind and task sum to zero (design 10.10).
create view ledger_line as
  select task_id, kind, kind || '.debit' as id, from_purse as purse, -amount_micro as amount_micro, created_at from ledger_transfer
  union all
  select task_id, kind, kind || '.credit', to_purse, amount_micro, created_at from ledger_transfer
  union all
  select task_id, kind, id::text, purse, amount_micro, created_at from ledger_entry;
