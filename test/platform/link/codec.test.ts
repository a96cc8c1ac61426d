import assert from 'node:assert/strict'
import { encodeFrame, LinkProtocolError, parseMeta } from '../../../platform/link/codec.ts'
import { FRAME } from '../../../schemas/nodes/link.ts'
import { decodeFrames } from '../../support/builders/link-frames.ts'

const decodeFrame = (message: Buffer) => [...decodeFrames(message)][0]!

describe('link frames', () => {
  it('decode to the frames that were encoded', () => {
    const body = Buffer.from([0, 1, 2, 255])

    const frame = decodeFrame(encodeFrame(FRAME.request, 0xffff_fffe, '{"path":"/ü"}', body))

    assert.equal(frame.type, FRAME.request)
    assert.equal(frame.stream, 0xffff_fffe)
    assert.deepEqual(parseMeta(frame), { path: '/ü' })
    assert.deepEqual(frame.body, body)
  })

  it('follow each other in a message', () => {
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

  it('may omit meta and body', () => {
    const frame = decodeFrame(encodeFrame(FRAME.ping, 0))

    assert.deepEqual(parseMeta(frame), {})
    assert.equal(frame.body.length, 0)
  })

  it('are rejected when they are truncated or malformed', () => {
    const whole = encodeFrame(FRAME.head, 1, '{"status":200}')

    assert.throws(() => decodeFrame(whole.subarray(0, 20)), LinkProtocolError)
    assert.throws(() => decodeFrame(Buffer.alloc(0)), LinkProtocolError)
    assert.throws(() => decodeFrame(Buffer.alloc(11)), LinkProtocolError)
    assert.throws(() => parseMeta(decodeFrame(encodeFrame(FRAME.head, 1, '{"status"'))), LinkProtocolError)
    assert.throws(() => encodeFrame(FRAME.head, 1, 'x'.repeat(70_000)), LinkProtocolError)
  })
})
