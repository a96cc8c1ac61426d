import assert from 'node:assert/strict'
import { jsonCheck } from '../../../api/http/validate.ts'
import { leaseSecondsFor } from '../../../node-runtime/control/lease-keeper.ts'
import { MAX_TIMEOUT_S } from '../../../schemas/nodes/lease-terms.ts'
import { ClaimRequest } from '../../../schemas/nodes/lease.ts'

describe('leaseSecondsFor', () => {
  it("returns a lease term that the platform accepts and that outlasts a call's retries", () => {
    for (const patienceS of [0, 1, 20, 60, MAX_TIMEOUT_S, 100_000]) {
      const lease_s = leaseSecondsFor(1_000 * patienceS)

      assert.doesNotThrow(() => jsonCheck('body', ClaimRequest)({ lease_s }), `${patienceS} s`)
      assert.ok(lease_s >= 30, 'a node that is busy for a moment keeps its work')
      if (patienceS <= MAX_TIMEOUT_S) assert.ok((2 / 3) * lease_s >= patienceS)
    }
  })
})
