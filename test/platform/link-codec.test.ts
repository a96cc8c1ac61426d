import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeFrames, encodeFrame, LinkProtocolError, parseMeta } from '../../platform/link-codec.ts'
import { TimerWheel } from '../../platform/timer-wheel.ts'
import { FRAME } from '../../schemas/link.ts'
import { until } from '../support/until.ts'

const decodeFrame = (message: Buffer) => [...decodeFrames(message)][0]!

describe('link frames', () => {
  it('come out as they went in', () => {
    const body = Buffer.from([0, 1, 2, 255])

    const frame = decodeFrame(encodeFrame(FRAME.request, 0xffff_fffe, '{"path":"/ü"}', body))

    assert.equal(frame.type, FRAME.request)
    assert.equal(frame.stream, 0xffff_fffe)
    assert.deepEqual(parseMeta(frame), { path: '/ü' })
    assert.deepEqual(frame.body, body)
  })

  it('come one behind the other in a message', () => {
    const message = Buffer.concat([
      encodeFrame(FRAME.head, 1, '{"status":200}'),
      encodeFrame(FRAME.ping, 0),
      encodeFrame(FRAME.chunk, 2, '', Buffer.from('end')),
    ])

    assert.deepEqual(
      [...decodeFrames(message)].map(({ type, stream, body }) => [type, stream, body.toString()]),
      [
        [FRAME.head, 1, ''],
        [FRAME.ping, 0, ''],
        [FRAME.chunk, 2, 'end'],
      ],
    )
    assert.throws(() => [...decodeFrames(message.subarray(0, -1))], LinkProtocolError)
  })

  it('may lack meta and body', () => {
    const frame = decodeFrame(encodeFrame(FRAME.ping, 0))

    assert.deepEqual(parseMeta(frame), {})
    assert.equal(frame.body.length, 0)
  })

  it('are refused when they are cut short, unknown or malformed', () => {
    const whole = encodeFrame(FRAME.head, 1, '{"status":200}')

    assert.throws(() => decodeFrame(whole.subarray(0, 20)), LinkProtocolError)
    assert.throws(() => decodeFrame(Buffer.alloc(0)), LinkProtocolError)
    assert.throws(() => decodeFrame(Buffer.alloc(11)), LinkProtocolError)
    assert.throws(() => decodeFrame(Buffer.from([99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])), LinkProtocolError)
    assert.throws(() => parseMeta(decodeFrame(encodeFrame(FRAME.head, 1, '{"status"'))), LinkProtocolError)
    assert.throws(() => encodeFrame(FRAME.head, 1, 'x'.repeat(70_000)), LinkProtocolError)
  })
})

describe('timer wheel', () => {
  it('calls back once it is time, in order, and not for what was cancelled', async () => {
    using wheel = new TimerWheel(10)
    const startedAt = performance.now()
    const heard: [string, number][] = []
    const hear = (what: string) => () => void heard.push([what, performance.now() - startedAt])
    wheel.add(60, hear('second'))
    wheel.add(20, hear('first'))
    wheel.cancel(wheel.add(30, hear('never')))

    await until(() => heard.length === 2)
    // What was cancelled would have been due in between.
    assert.deepEqual(
      heard.map(([what]) => what),
      ['first', 'second'],
    )
    assert.ok(heard[0]![1] >= 20 && heard[1]![1] >= 60)
  })

  it('never calls back too soon, even when the loop is late and a tick begins just after the timer', async () => {
    const spin = (isOver: () => boolean) => {
      while (!isOver());
    }
    using wheel = new TimerWheel(10)
    spin(() => performance.now() % 10 > 8)
    const addedAt = performance.now()
    const called = new Promise<void>((resolve) => wheel.add(20, resolve))
    spin(() => performance.now() - addedAt > 13)

    await called

    assert.ok(performance.now() - addedAt >= 20)
  })

  it('takes new timers after it has run empty', async () => {
    using wheel = new TimerWheel(10)
    for (let round = 0; round < 3; round++) {
      await new Promise<void>((resolve) => wheel.add(15, resolve))
      await sleep(30)
    }
  })
})
