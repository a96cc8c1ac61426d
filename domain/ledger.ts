/** The kinds of ledger entry: those of a task or stage, and what an operator gives. */
export type LedgerKind = 'hold' | 'capture' | 'payout' | 'refund' | 'credit'

/** A movement of credits from one ledger account to another; it becomes two entries, which sum to zero. */
export interface Transfer {
  readonly kind: LedgerKind
  readonly from: string
  readonly to: string
  readonly amount_micro: number
}

export interface PricedTask {
  readonly accountId: string
  readonly priceMicro: number
}

/** The share of a task's price that the owner of the node earns. */
const OWNER_SHARE_PCT = 80

/** The purse from which operators give credits. */
const OPERATOR = 'operator'
const ESCROW = 'escrow'
const PLATFORM = 'platform'
const payer = ({ accountId }: PricedTask) => `account:${accountId}`

/** A transfer of zero makes no entries. */
const move = (kind: LedgerKind, from: string, to: string, amount: number): Transfer[] =>
  amount === 0 ? [] : [{ kind, from, to, amount_micro: amount }]

/** Reserves the price when a task is admitted. */
export const hold = (task: PricedTask): Transfer[] => move('hold', payer(task), ESCROW, task.priceMicro)

/** Pays for a task that succeeded; the owner of the node that ran it gets the larger part. */
export function capture(task: PricedTask, ownerAccountId: string | undefined): Transfer[] {
  const captured = move('capture', ESCROW, PLATFORM, task.priceMicro)
  if (ownerAccountId === undefined) return captured
  const share = Math.floor((task.priceMicro * OWNER_SHARE_PCT) / 100)
  return [...captured, ...move('payout', PLATFORM, `owner:${ownerAccountId}`, share)]
}

/** Gives an account credits, or with a negative amount takes some back. */
export function credit(accountId: string, amountMicro: number): Transfer {
  const account = `account:${accountId}`
  const [from, to] = amountMicro < 0 ? [account, OPERATOR] : [OPERATOR, account]
  return { kind: 'credit', from, to, amount_micro: Math.abs(amountMicro) }
}

/** Moves the price of a task that failed back to its payer. */
export const refund = (task: PricedTask): Transfer[] => move('refund', ESCROW, payer(task), task.priceMicro)
