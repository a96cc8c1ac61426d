import assert from 'node:assert/strict'
import { judgeAttempt, sanitizedCode } from '../../../domain/webhooks/outcome.ts'

describe('webhook outcome', () => {
  for (const [status, outcome, errorCode, statusClass] of [
    [200, 'succeeded', null, '2xx'],
    [299, 'succeeded', null, '2xx'],
    [300, 'permanent', 'redirect_rejected', '3xx'],
    [399, 'permanent', 'redirect_rejected', '3xx'],
    [400, 'permanent', 'http_4xx', '4xx'],
    [408, 'retryable', 'http_4xx', '4xx'],
    [410, 'permanent', 'gone', '4xx'],
    [425, 'retryable', 'http_4xx', '4xx'],
    [429, 'retryable', 'http_4xx', '4xx'],
    [499, 'permanent', 'http_4xx', '4xx'],
    [500, 'retryable', 'http_5xx', '5xx'],
    [599, 'retryable', 'http_5xx', '5xx'],
    // These aren't HTTP statuses, so they have no class.
    [199, 'retryable', 'invalid_answer', null],
    [600, 'retryable', 'invalid_answer', null],
    [999, 'retryable', 'invalid_answer', null],
  ] as const) {
    it(`is ${outcome} for ${status} (contract 6.4.2)`, () => {
      const verdict = judgeAttempt({ status, retryAfter: undefined })

      assert.deepEqual(
        [verdict.outcome, verdict.errorCode, verdict.statusClass],
        [outcome, errorCode, statusClass],
      )
      assert.equal(verdict.disablesEndpoint, status === 410)
    })
  }

  it('shows the class of a status when an earlier version stored the status itself (2.13)', () => {
    const codes = ['http_500', 'http_404', 'http_5xx', 'gone', 'timeout', 'http_5000']
    assert.deepEqual(codes.map(sanitizedCode), [
      'http_5xx',
      'http_4xx',
      'http_5xx',
      'gone',
      'timeout',
      'http_5000',
    ])
  })
})
