-- One row for what moves from one purse to another, not two: a chat books three of them, and the two indexes on each of
-- six entries were the larger part of writing it (measured). As double entry they are read through the view.
create table ledger_transfer (
  task_id uuid not null,
  kind text not null check (kind in ('hold', 'capture', 'payout', 'refund')),
  -- Whose purse: account:<id>, escrow, platform or owner:<account id>.
  from_purse text not null,
  to_purse text not null,
  amount_micro bigint not null check (amount_micro > 0),
  created_at timestamptz not null default now(),
  primary key (task_id, kind)
);
insert into ledger_transfer (task_id, kind, from_purse, to_purse, amount_micro, created_at)
  select debit.task_id, debit.kind, debit.purse, credit.purse, credit.amount_micro, debit.created_at
  from ledger_entry debit join ledger_entry credit using (task_id, kind)
  where debit.amount_micro < 0 and credit.amount_micro > 0;
drop table ledger_entry;

-- Double entry: the entries of one kind and task sum to zero (design 10.10).
create view ledger_entry as
  select task_id, kind, line.id, line.purse, line.amount_micro, created_at
  from ledger_transfer, lateral (values
    (kind || '.debit', from_purse, -amount_micro),
    (kind || '.credit', to_purse, amount_micro)) as line(id, purse, amount_micro);
