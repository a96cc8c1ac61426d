import assert from 'node:assert/strict'
import { capture, hold, refund, type Transfer } from '../../domain/ledger.ts'

const task = (priceMicro: number) => ({ accountId: 'a', priceMicro })
const purses = (transfers: readonly Transfer[]) => {
  const totals: Record<string, number> = {}
  for (const { from, to, amount_micro } of transfers) {
    totals[from] = (totals[from] ?? 0) - amount_micro
    totals[to] = (totals[to] ?? 0) + amount_micro
  }
  return totals
}

describe('ledger', () => {
  it('moves whole, positive amounts, one entry per kind, at every price', () => {
    for (const price of [1, 2, 3, 99, 100, 101, 12_345_678_901]) {
      for (const transfers of [[...hold(task(price)), ...capture(task(price), 'o')], refund(task(price))]) {
        assert.equal(new Set(transfers.map(({ kind }) => kind)).size, transfers.length)
        for (const { amount_micro } of transfers)
          assert.ok(Number.isInteger(amount_micro) && amount_micro > 0)
      }
    }
  })

  it("pays the node's owner 80% of a task's price and keeps the rest, including the rounding remainder", () => {
    const lines = [...hold(task(1_001)), ...capture(task(1_001), 'o')]

    assert.deepEqual(purses(lines), { 'account:a': -1_001, escrow: 0, platform: 201, 'owner:o': 800 })
  })

  it('returns the full hold of a failed task to the payer', () => {
    assert.deepEqual(purses([...hold(task(7)), ...refund(task(7))]), { 'account:a': 0, escrow: 0 })
  })

  it('creates no entries for free work', () => {
    assert.deepEqual([...hold(task(0)), ...capture(task(0), 'o'), ...refund(task(0))], [])
  })
})
