import assert from 'node:assert/strict'
import {
  payloadOf,
  ResultPayloads,
  UnfitValuesError,
} from '../../../../db/repositories/cohorts/payload-of.ts'

describe("a result's payloads", () => {
  it('are serialized once for all edges that carry the same value, and not for absent values', () => {
    const result = { text: 'hello', other: 1 }
    const payloads = new ResultPayloads(result)
    const edge = { kind: 'json', from_path: '/text', template: null } as const
    const first = payloads.of(edge)

    assert.deepEqual(first, payloadOf('hello'))
    assert.equal(payloads.of({ ...edge }), first)
    assert.deepEqual(
      payloads.of({ ...edge, kind: 'text', template: 'So: {{value}}' }),
      payloadOf('So: hello'),
    )
    assert.deepEqual(payloads.of({ ...edge, from_path: '' }), payloadOf(result))
    assert.equal(payloads.of({ ...edge, from_path: '/absent' }), undefined)
    assert.equal(payloads.of({ ...edge, kind: 'embedding' }), undefined)
  })
  it('are rejected if they exceed 64 MiB together', () => {
    const payloads = new ResultPayloads({ text: 'x'.repeat(33 * 2 ** 20) })
    const edge = { kind: 'json', from_path: '/text', template: null } as const
    payloads.of(edge)
    payloads.of({ ...edge })

    assert.throws(() => payloads.of({ ...edge, template: 'So: {{value}}' }), UnfitValuesError)
  })
})
