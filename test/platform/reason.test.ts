import assert from 'node:assert/strict'
import { ControlError } from '../../node-runtime/control/client.ts'
import { reasonOf } from '../../platform/reason.ts'

describe("an error's one-line reason", () => {
  it('is the gRPC details if they are a string', () => {
    assert.equal(reasonOf(Object.assign(new Error('14 UNAVAILABLE: away'), { details: 'away\nat' })), 'away')
  })

  it('is the message of an API error, whose details are an object', () => {
    assert.equal(reasonOf(new ControlError(503, 'unavailable', 'no database\nnow')), 'no database')
  })

  it('is the first of several errors, or the code', () => {
    assert.equal(reasonOf(new AggregateError([new Error('first'), new Error('second')])), 'first')
    assert.equal(reasonOf({ code: 'ECONNREFUSED' }), 'ECONNREFUSED')
  })
})
