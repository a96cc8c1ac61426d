/** What is booked for a task. */
export type LedgerKind = 'hold' | 'capture' | 'payout' | 'refund'

/** What a task moves from one purse to another: two entries, which sum to zero. */
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

/** A node owner's share of what a task earns. */
const OWNER_SHARE_PCT = 80

const ESCROW = 'escrow'
const PLATFORM = 'platform'
const payer = ({ accountId }: PricedTask) => `account:${accountId}`

/** Free work books nothing. */
const move = (kind: LedgerKind, from: string, to: string, amount: number): Transfer[] =>
  amount === 0 ? [] : [{ kind, from, to, amount_micro: amount }]

/** The price is set aside when a task is admitted. */
export const hold = (task: PricedTask): Transfer[] => move('hold', payer(task), ESCROW, task.priceMicro)

/** A task that succeeded is paid for, and the owner of the node that ran it gets the larger part. */
export function capture(task: PricedTask, ownerAccountId: string | undefined): Transfer[] {
  const captured = move('capture', ESCROW, PLATFORM, task.priceMicro)
  if (ownerAccountId === undefined) return captured
  const share = Math.floor((task.priceMicro * OWNER_SHARE_PCT) / 100)
  return [...captured, ...move('payout', PLATFORM, `owner:${ownerAccountId}`, share)]
}

/** A task that failed costs nothing. */
export const refund = (task: PricedTask): Transfer[] => move('refund', ESCROW, payer(task), task.priceMicro)
