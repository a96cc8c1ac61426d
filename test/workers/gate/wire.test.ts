import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import proto from '@temporalio/proto'
import { describe, it } from 'mocha'
import { Message, WireError } from '../../../workers/gate/wire.ts'

const { PollActivityTaskQueueResponse, RespondActivityTaskCompletedRequest } =
  proto.temporal.api.workflowservice.v1

describe('messages parsed by the gate', () => {
  it('keep every field except the replaced one', () => {
    for (const length of [0, 1, 127, 128, 20_000]) {
      const answer = {
        taskToken: randomBytes(40),
        workflowExecution: { workflowId: 'task/x', runId: 'r' },
        input: { payloads: [{ data: randomBytes(length) }] },
        attempt: 300,
        scheduledTime: { seconds: 1_700_000_000 as never, nanos: 5 },
      }
      const message = new Message(Buffer.from(PollActivityTaskQueueResponse.encode(answer).finish()))
      assert.equal(new Message(message.bytes(4)).text(1), 'task/x')

      const read = PollActivityTaskQueueResponse.decode(message.with(1, Buffer.alloc(length, 7)))

      assert.deepEqual(Buffer.from(read.taskToken), Buffer.alloc(length, 7))
      assert.equal(read.attempt, 300)
      assert.equal(read.workflowExecution?.runId, 'r')
      assert.equal(read.input?.payloads?.[0]?.data?.length, length)
    }
  })

  it('are rejected if they repeat a field on which the gate bases decisions, because another parser could read it differently', () => {
    const one = (taskToken: string) =>
      RespondActivityTaskCompletedRequest.encode({ taskToken: Buffer.from(taskToken) }).finish()
    const twice = new Message(Buffer.concat([one('mine'), one('theirs')]))

    assert.throws(() => twice.bytes(1), WireError)
    assert.equal(twice.bytes(4).length, 0)
  })

  it('are rejected if they are truncated, meaningless, or claim impossible lengths', () => {
    const whole = Buffer.from(
      RespondActivityTaskCompletedRequest.encode({
        taskToken: randomBytes(300),
        namespace: 'default',
      }).finish(),
    )
    const reads = (bytes: Buffer) => {
      try {
        return new Message(bytes).bytes(1).length
      } catch (err) {
        assert.ok(err instanceof WireError, String(err))
        return 'refused'
      }
    }
    for (let length = 1; length < 303; length++) assert.equal(reads(whole.subarray(0, length)), 'refused')
    const cases = [
      [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1],
      [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
      [0x0b, 0x0c],
      [0x00, 0x01],
      [0x08, 0x01],
      [0x09, 1, 2, 3],
    ]
    for (const bytes of cases) assert.equal(reads(Buffer.from(bytes)), 'refused', String(bytes))
    for (let round = 0; round < 2_000; round++) reads(randomBytes(round % 60))
  })
})
