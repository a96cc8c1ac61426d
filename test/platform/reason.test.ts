import assert from 'node:assert/strict'
import { ControlError } from '../../node-runtime/control/client.ts'
import { reasonOf } from '../../platform/reason.ts'

describe('the reason of an error in one line', () => {
  it('is the details of gRPC where they are a text', () => {
    assert.equal(reasonOf(Object.assign(new Error('14 UNAVAILABLE: away'), { details: 'away\nat' })), 'away')
  })

  it('is the message of an error of the API, whose details are an object', () => {
    assert.equal(reasonOf(new ControlError(503, 'unavailable', 'no database\nnow')), 'no database')
  })

  it('is the first one of several, or the code', () => {
    assert.equal(reasonOf(new AggregateError([new Error('first'), new Error('second')])), 'first')
    assert.equal(reasonOf({ code: 'ECONNREFUSED' }), 'ECONNREFUSED')
  })
})
