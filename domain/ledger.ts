/** The kinds of ledger entries: those of a task or stage, and credits from an operator. */
export type LedgerKind = 'hold' | 'capture' | 'payout' | 'refund' | 'credit'

/** A movement of credits between two ledger accounts; it becomes two entries that sum to zero. */
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

/** The share of a task's price that the node's owner earns. */
const OWNER_SHARE_PCT = 80

/** The ledger account from which operators grant credits. */
const OPERATOR = 'operator'
const ESCROW = 'escrow'
const PLATFORM = 'platform'
const payer = ({ accountId }: PricedTask) => `account:${accountId}`

/** A transfer of zero creates no entries. */
const move = (kind: LedgerKind, from: string, to: string, amount: number): Transfer[] =>
  amount === 0 ? [] : [{ kind, from, to, amount_micro: amount }]

/** Reserves the price when a task is admitted. */
export const hold = (task: PricedTask): Transfer[] => move('hold', payer(task), ESCROW, task.priceMicro)

/** Pays for a task that succeeded; the owner of the node that ran it gets the larger share. */
export function capture(task: PricedTask, ownerAccountId: string | undefined): Transfer[] {
  const captured = move('capture', ESCROW, PLATFORM, task.priceMicro)
  if (ownerAccountId === undefined) return captured
  const share = Math.floor((task.priceMicro * OWNER_SHARE_PCT) / 100)
  return [...captured, ...move('payout', PLATFORM, `owner:${ownerAccountId}`, share)]
}

/** Grants credits to an account, or with a negative amount takes some back. */
export function credit(accountId: string, amountMicro: number): Transfer {
  const account = `account:${accountId}`
  const [from, to] = amountMicro < 0 ? [account, OPERATOR] : [OPERATOR, account]
  return { kind: 'credit', from, to, amount_micro: Math.abs(amountMicro) }
}

/** Returns the price of a failed task to its payer. */
export const refund = (task: PricedTask): Transfer[] => move('refund', ESCROW, payer(task), task.priceMicro)
