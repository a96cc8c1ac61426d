import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { WebSocket, WebSocketServer } from 'ws'
import { type ChannelOptions, LinkChannel } from '../../../platform/link/channel.ts'
import { encodeFrame, type Frame } from '../../../platform/link/codec.ts'
import { FRAME, MAX_CHUNK, STREAM_CREDIT } from '../../../schemas/nodes/link.ts'
import { until } from '../../support/servers/nodes/node.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

interface End extends Disposable {
  channel: LinkChannel
  frames: Frame[]
  closed: string[]
  stalled: number[]
}

describe('the link channel', () => {
  let server: WebSocketServer
  before(async () => {
    server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false })
    await once(server, 'listening')
  })
  after(() => server.close())

  const end = (socket: WebSocket, options: Partial<ChannelOptions> = {}): End => {
    const [frames, closed, stalled]: [Frame[], string[], number[]] = [[], [], []]
    const channel = new LinkChannel(socket, {
      onFrame: (frame) => frames.push(frame),
      onClose: (reason) => closed.push(reason),
      onStall: (stream) => stalled.push(stream),
      ...options,
    })
    return { channel, frames, closed, stalled, [Symbol.dispose]: () => channel.close('the test is over') }
  }
  const sockets = async () => {
    const near = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, {
      perMessageDeflate: false,
    })
    const [[far]] = (await Promise.all([once(server, 'connection'), once(near, 'open')])) as [
      [WebSocket],
      unknown,
    ]
    return { near, far }
  }
  const bytesOf = ({ frames }: Pick<End, 'frames'>, stream: number) =>
    frames
      .filter((frame) => frame.stream === stream && frame.type === FRAME.chunk)
      .reduce((sum, { body }) => sum + body.length, 0)

  it('delivers streams whole and in order, then their ends', async () => {
    const { near, far } = await sockets()
    using sender = end(near)
    using reader = end(far)
    const bytes = Buffer.from(Array.from({ length: 700_000 }, (_, i) => i % 251))
    for (const stream of [1, 2, 3]) {
      reader.channel.expect(stream)
      sender.channel.write(stream, bytes)
      sender.channel.end(stream)
    }

    await until(() => reader.frames.filter(({ type }) => type === FRAME.end).length === 3)

    for (const stream of [1, 2, 3]) {
      const chunks = reader.frames.filter((frame) => frame.stream === stream && frame.type === FRAME.chunk)
      assert.ok(chunks.every(({ body }) => body.length <= MAX_CHUNK))
      assert.ok(Buffer.concat(chunks.map(({ body }) => body)).equals(bytes))
      assert.equal(reader.frames.findLast((frame) => frame.stream === stream)?.type, FRAME.end)
    }
  })

  it("joins the data that a stream receives in one turn of the event loop, and sends a turn's frames as one message", async () => {
    const { near, far } = await sockets()
    using sender = end(near)
    using reader = end(far)
    let messages = 0
    far.on('message', () => (messages += 1))
    const pieces = Array.from({ length: 500 }, (_, i) => Buffer.from(`piece ${i};`))
    for (const piece of pieces) for (const stream of [1, 2]) sender.channel.write(stream, piece)
    for (const stream of [1, 2]) sender.channel.end(stream)
    for (let stream = 3; stream < 40; stream++) sender.channel.end(stream, '{}', pieces[0])

    await until(() => reader.frames.filter(({ type }) => type === FRAME.end).length === 39)

    for (const stream of [1, 2]) {
      const chunks = reader.frames.filter((frame) => frame.stream === stream && frame.type === FRAME.chunk)
      assert.equal(chunks.length, 1)
      assert.equal(chunks[0]?.body.toString(), pieces.join(''))
    }
    assert.equal(messages, 1)
  })

  it('sends pending data before it closes', async () => {
    const { near, far } = await sockets()
    using sender = end(near)
    using reader = end(far)
    sender.channel.write(1, Buffer.from('the last'))
    sender.channel.write(1, Buffer.from(' words'))
    sender.channel.end(1)
    sender.channel.close('over')

    await until(() => reader.closed.length === 1)

    assert.deepEqual(
      reader.frames.map(({ type, body }) => [type, body.toString()]),
      [
        [FRAME.chunk, 'the last words'],
        [FRAME.end, ''],
      ],
    )
  })

  it('lets control frames overtake waiting data', async () => {
    const { near, far } = await sockets()
    using sender = end(near)
    using reader = end(far)
    reader.channel.expect(1)
    sender.channel.write(1, Buffer.alloc(8 * 1024 * 1024))
    sender.channel.end(1)

    sender.channel.send(FRAME.cancel, 0, '{"job_id":"j"}')

    await until(() => reader.frames.at(-1)?.type === FRAME.end)
    const before = reader.frames.slice(
      0,
      reader.frames.findIndex(({ type }) => type === FRAME.cancel),
    )
    assert.ok(bytesOf({ frames: before }, 1) <= STREAM_CREDIT)
    assert.equal(bytesOf(reader, 1), 8 * 1024 * 1024)
  })

  it('stops a stream at its credit, reports the stall, and serves other streams', async () => {
    const { near, far } = await sockets()
    using sender = end(near, { stallMs: 1_000, pingMs: 50 })
    using reader = end(far, { pingMs: 50 })
    reader.channel.expect(2)

    const wants = sender.channel.write(1, Buffer.alloc(2 * STREAM_CREDIT))
    sender.channel.write(2, Buffer.alloc(2 * STREAM_CREDIT))

    assert.equal(wants, false)
    await until(() => bytesOf(reader, 2) === 2 * STREAM_CREDIT)
    await until(() => sender.stalled.includes(1))
    assert.equal(bytesOf(reader, 1), STREAM_CREDIT)
    assert.ok(!sender.stalled.includes(2))
  })

  it('calls the producer back when space is available again', async () => {
    const { near, far } = await sockets()
    using sender = end(near)
    using reader = end(far)
    reader.channel.expect(1)
    reader.channel.setPaused(1, true)
    let drained = 0
    sender.channel.write(1, Buffer.alloc(2 * STREAM_CREDIT), () => (drained += 1))
    await until(() => bytesOf(reader, 1) === STREAM_CREDIT)
    assert.equal(drained, 0)

    reader.channel.setPaused(1, false)

    await until(() => drained === 1)
  })

  it('keeps no data from cancelled streams while the socket is blocked', async () => {
    const { near, far } = await sockets()
    using sender = end(near)
    using reader = end(far)
    far.pause()
    const heldBytes = () => {
      collect()
      return process.memoryUsage().arrayBuffers
    }
    const before = heldBytes()
    for (let stream = 1; stream <= 400; stream++) {
      sender.channel.write(stream, Buffer.alloc(STREAM_CREDIT))
      if (stream > 100) sender.channel.forget(stream)
    }
    sender.channel.write(401, Buffer.from('after them'))
    sender.channel.end(401)
    // A buffer's memory is freed some time after the buffer is collected.
    await until(() => heldBytes() - before < 150 * STREAM_CREDIT)

    far.resume()

    await until(() => bytesOf(reader, 100) === STREAM_CREDIT)
    assert.equal(bytesOf(reader, 401), 'after them'.length)
    assert.equal(bytesOf(reader, 150), 0)
  })

  it("counts an end frame's bytes toward the pace only if its stream is unexpected", async () => {
    const { near, far } = await sockets()
    using sender = end(near)
    const ends: number[] = []
    using reader = end(far, {
      pace: { perSecond: 1, burst: 100 },
      onFrame: ({ stream }) => {
        ends.push(stream)
        reader.channel.forget(stream)
      },
    })
    const streams = Array.from({ length: 20 }, (_, i) => i + 1)
    for (const stream of streams) reader.channel.expect(stream)

    for (const stream of streams) sender.channel.end(stream, '{}', Buffer.alloc(16_384))
    await until(() => ends.length === streams.length)
    for (const stream of streams) sender.channel.end(stream, '{}', Buffer.alloc(16_384))

    await sleep(500)
    assert.ok(ends.length <= streams.length + 2, `${ends.length} ends`)
  })

  it('detects that the other side has gone silent', async () => {
    const { near } = await sockets()
    using sender = end(near, { pingMs: 50, idleMs: 200 })

    await until(() => sender.closed.length === 1)

    assert.match(sender.closed[0] ?? '', /silent/)
  })

  it('stays open while both sides are idle', async () => {
    const { near, far } = await sockets()
    using one = end(near, { pingMs: 50, idleMs: 700 })
    using other = end(far, { pingMs: 50, idleMs: 700 })

    await new Promise((resolve) => setTimeout(resolve, 1_200))

    assert.deepEqual([...one.closed, ...other.closed], [])
    assert.deepEqual(other.frames, [])
  })

  const faults: [string, Buffer, RegExp][] = [
    ['the frame format', Buffer.from('nonsense'), /frame/],
    ['the metadata format', encodeFrame(FRAME.ack, 1, 'null'), /not an object/],
    ['the credit rules', encodeFrame(FRAME.ack, 1, '{"credit":-1}'), /credit/],
  ]
  for (const [what, message, reason] of faults) {
    it(`closes when the other side violates ${what}`, async () => {
      const { near, far } = await sockets()
      using reader = end(far)
      reader.channel.write(1, Buffer.alloc(2 * STREAM_CREDIT))

      near.send(message)

      const [code] = (await once(near, 'close')) as [number]
      assert.equal(code, 1002)
      assert.match(reader.closed[0] ?? '', reason)
    })
  }
})
