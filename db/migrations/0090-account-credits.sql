-- Credits that operators give an account or take back. The movement is a row of `ledger_transfer` with the same id, so
-- that every sum over the ledger stays zero.
create table account_credit (
  id uuid primary key,
  account_id uuid not null references account,
  -- In millionths of a credit; negative for credits that are taken back.
  amount_micro bigint not null check (amount_micro <> 0),
  reason text not null,
  created_at timestamptz not null default now()
);
create index account_credit_account on account_credit (account_id, id desc);

alter table ledger_transfer drop constraint ledger_transfer_kind_check;
alter table ledger_transfer add constraint ledger_transfer_kind_check
  check (kind in ('hold', 'capture', 'payout', 'refund', 'credit')) not valid;
