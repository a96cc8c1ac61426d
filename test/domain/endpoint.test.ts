import assert from 'node:assert/strict'
import { accessTo, missingForPublic, reviewAfter } from '../../domain/endpoint.ts'
import { microToUsd, usdToMicro } from '../../domain/money.ts'
import { orphanedTest, orphanOf } from '../../domain/orphan.ts'
import type { NodeSnapshot } from '../../domain/placement/node-snapshot.ts'
import { countModelNodes } from '../../domain/readiness.ts'
import type { NodeModelState } from '../../schemas/nodes/node.ts'

describe('access to an endpoint', () => {
  const of = (
    visibility: 'private' | 'account' | 'public',
    review_status: 'active' | 'pending_review' | 'approved' | 'rejected',
  ) => ({ account_id: 'owner', visibility, review_status })

  it('is "own" for the owner in every state', () => {
    for (const endpoint of [of('private', 'active'), of('public', 'rejected'), of('account', 'active')]) {
      assert.equal(accessTo(endpoint, 'owner'), 'own')
    }
  })

  it('is "use" for everyone once the endpoint is public and approved', () => {
    assert.equal(accessTo(of('public', 'approved'), 'other'), 'use')
    assert.equal(accessTo(of('public', 'pending_review'), 'other'), 'known')
    assert.equal(accessTo(of('public', 'rejected'), 'other'), 'known')
    // The endpoint was approved earlier, and is no longer public.
    assert.equal(accessTo(of('account', 'approved'), 'other'), 'none')
    assert.equal(accessTo(of('private', 'active'), 'other'), 'none')
  })
})

describe('the review of an endpoint (3.6)', () => {
  it('starts when the endpoint becomes public, and ends when it no longer is', () => {
    assert.equal(reviewAfter(undefined, 'account'), 'active')
    assert.equal(reviewAfter(undefined, 'public'), 'pending_review')
    assert.equal(reviewAfter({ visibility: 'account', review_status: 'active' }, 'public'), 'pending_review')
    assert.equal(reviewAfter({ visibility: 'public', review_status: 'approved' }, 'account'), 'active')
  })

  it('survives setting "public" again, and restarts after a rejection', () => {
    assert.equal(reviewAfter({ visibility: 'public', review_status: 'approved' }, 'public'), 'approved')
    assert.equal(
      reviewAfter({ visibility: 'public', review_status: 'pending_review' }, 'public'),
      'pending_review',
    )
    assert.equal(reviewAfter({ visibility: 'public', review_status: 'rejected' }, 'public'), 'pending_review')
  })

  it('requires content in every field of the listing', () => {
    const listing = {
      description: 'd',
      display_name: 'n',
      input_schema: { type: 'object' },
      output_schema: { type: 'object' },
      example_input: { a: 1 },
      example_output: { b: 1 },
      tags: ['t'],
      task_type: 'regression',
      price_per_request: 0,
    }
    assert.deepEqual(missingForPublic(listing), [])
    const missing = missingForPublic({ ...listing, description: ' ', tags: [], example_input: {} })
    assert.deepEqual(
      missing.map(({ loc }) => loc[1]),
      ['description', 'example_input', 'tags'],
    )
  })
})

describe('money', () => {
  it('is stored as whole micro-credits: 1 credit is 0.01 USD', () => {
    assert.equal(usdToMicro(0.01, 0.01), 1_000_000)
    assert.equal(usdToMicro(0.1 + 0.2, 0.01), 30_000_000)
    assert.equal(usdToMicro(0.00000001, 0.01), 1)
  })

  it("uses the operator's credit rate, and converts back to the original price", () => {
    assert.equal(usdToMicro(0.01, 0.02), 500_000)
    for (const rate of [0.01, 0.02, 0.07, 1, 3]) {
      for (const usd of [0, 0.001, 0.0037, 0.01, 0.3, 19.99, 1000]) {
        const error = Math.abs(microToUsd(usdToMicro(usd, rate), rate) - usd)
        assert.ok(error <= rate / 1_000_000, `${usd} USD at ${rate}`)
      }
    }
    assert.equal(microToUsd(usdToMicro(0.0037, 0.01), 0.01), 0.0037)
  })
})

describe('readiness', () => {
  const node = (states: Record<string, NodeModelState>, draining = false): NodeSnapshot => ({
    node_id: 'n',
    account_id: 'owner',
    sharing: 'shared',
    hardware: 'cpu',
    profiles: [],
    cpus: 1,
    memory_total_mb: 1,
    memory_free_mb: 1,
    load: 0,
    draining,
    models: Object.entries(states).map(([model_key, state]) => ({
      model_key,
      state,
      in_flight: 0,
      memory_mb: 1,
    })),
  })

  it('counts nodes that accept work and have the model loaded or on disk', () => {
    const nodesOf = countModelNodes(
      [
        node({ a: 'warm', b: 'evicted' }),
        node({ a: 'running', b: 'loading_model', c: 'cold', d: 'downloading_model' }),
        node({ a: 'idle' }, true),
      ],
      null,
    )

    assert.deepEqual(nodesOf('a'), { warm: 2, cached: 0 })
    assert.deepEqual(nodesOf('b'), { warm: 0, cached: 2 })
    assert.deepEqual(nodesOf('c'), { warm: 0, cached: 0 })
    assert.deepEqual(nodesOf('d'), { warm: 0, cached: 0 })
    assert.deepEqual(nodesOf('unknown'), { warm: 0, cached: 0 })
  })
})

describe('work that may have lost its workflow', () => {
  it('is left alone while the workflow runs, ended if an operator or an error ended the workflow, and restarted if the workflow was lost', () => {
    for (const status of ['RUNNING', 'PAUSED', 'CONTINUED_AS_NEW']) assert.equal(orphanOf(status), undefined)
    for (const status of ['MISSING', 'COMPLETED']) assert.equal(orphanOf(status), 'restart')
    assert.deepEqual(
      ['TERMINATED', 'FAILED', 'TIMED_OUT', 'CANCELLED'].map((status) => orphanOf(status)),
      [
        { status: 'failed', reason: 'an operator terminated the workflow' },
        { status: 'failed', reason: 'an internal error ended the workflow' },
        { status: 'failed', reason: 'an internal error ended the workflow' },
        { status: 'cancelled', reason: 'an operator cancelled the workflow' },
      ],
    )
  })

  it("is restarted once if it is a candidate's test, unless it was cancelled", () => {
    for (const status of ['TERMINATED', 'MISSING', 'COMPLETED', 'TIMED_OUT']) {
      assert.equal(orphanedTest(status, 1), 'restart')
      assert.deepEqual(orphanedTest(status, 2), {
        status: 'failed',
        reason: 'its test ended 2 times without a verdict',
      })
    }
    assert.equal(orphanedTest('RUNNING', 2), undefined)
    assert.deepEqual(orphanedTest('CANCELLED', 1), { status: 'cancelled', reason: 'its test was cancelled' })
  })
})
