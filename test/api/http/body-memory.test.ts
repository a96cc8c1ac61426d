import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Type from 'typebox'
import { weighJson } from '../../../api/http/bodies/json-weight.ts'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import { until } from '../../support/assertions/until.ts'
import { connectTo, startApi, type TestApi } from '../../support/servers/api.ts'
import { signedNode } from '../../support/servers/nodes/signed-node.ts'

const MIB = 1024 * 1024
const BUDGET_MB = 4

const Fill = Type.Object({ fill: Type.Optional(Type.Unknown()) })
const Taken = { status: 200, schema: Type.Object({ bytes: Type.Integer() }) }

const take = route({
  operationId: 'take',
  summary: 'Take what comes',
  method: 'POST',
  path: '/take',
  auth: 'api-key',
  maxBodyBytes: 16 * MIB,
  body: Fill,
  success: Taken,
  handler: ({ rawBody }) => ({ bytes: rawBody.length }),
})
const takeOfNode = route({
  operationId: 'takeOfNode',
  summary: 'Take what a node sends',
  method: 'POST',
  path: '/take-of-node',
  auth: 'node-signature',
  maxBodyBytes: 16 * MIB,
  body: Fill,
  success: Taken,
  handler: ({ rawBody }) => ({ bytes: rawBody.length }),
})
const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [take, takeOfNode] },
]

describe('the memory of request bodies', () => {
  let api: TestApi
  let keys: string[]
  before(async () => {
    api = await startApi({ families, env: { HEARTH_BODY_MEMORY_MB: String(BUDGET_MB) } })
    keys = await Promise.all([1, 2, 3, 4].map(async () => (await api.account()).key))
  })
  after(() => api[Symbol.asyncDispose]())

  /** Announces a body of `length` bytes and sends `sent` of them; collects the gateway's response. */
  const begin = (
    key: string,
    { sent, length, path = 'take' }: { sent: number; length?: number; path?: string },
  ) => {
    const socket = connectTo(api.baseUrl)
    const size = length === undefined ? 'transfer-encoding: chunked' : `content-length: ${length}`
    const head = [`POST /api/builder/v1/${path} HTTP/1.1`, 'host: x', `x-api-key: ${key}`]
    socket.write(`${[...head, 'content-type: application/json', size].join('\r\n')}\r\n\r\n`)
    const body = Buffer.alloc(sent, ' ')
    socket.write(length === undefined ? `${sent.toString(16)}\r\n${String(body)}\r\n` : body)
    const answer = { text: '' }
    socket.on('data', (data) => (answer.text += String(data))).on('error', () => {})
    return { socket, answer }
  }
  const small = (key: string) => api.call('POST', '/api/builder/v1/take', { key, body: {} })
  const medium = (key: string) =>
    api.call('POST', '/api/builder/v1/take', { key, body: { fill: 'x'.repeat(2000) } })
  const large = (key: string) =>
    api.call('POST', '/api/builder/v1/take', { key, body: { fill: 'x'.repeat(300_000) } })
  const leave = async (sockets: Socket[]) => {
    await Promise.all(
      sockets.map(async (socket) => {
        socket.destroy()
        if (!socket.closed) await once(socket, 'close')
      }),
    )
  }

  /** Returns whether the memory is used up, by announcing a body without sending it, which reserves no memory. */
  const isFull = async (key: string) => {
    const { socket, answer } = begin(key, { sent: 0, length: 2_000 })
    await sleep(50)
    await leave([socket])
    return answer.text.startsWith('HTTP/1.1 503')
  }

  it('is shared by all connections: requests beyond it get 503 no_capacity with Retry-After until others finish', async () => {
    const [mine = '', theirs = '', third = '', others = ''] = keys
    const open: Socket[] = []
    const sizes: [string, number][] = [
      [mine, 2 * MIB - 400],
      [theirs, MIB - 4_000],
      [third, MIB / 2],
    ]
    // One after the other, because each can reserve at most what the earlier ones have left.
    for (const [key, sent] of sizes) {
      open.push(begin(key, { sent, length: sent + 399 }).socket)
      await sleep(300)
    }
    await until(async () => (await large(others)).status === 503)

    const refused = await large(others)
    assert.equal(refused.status, 503)
    assert.equal(refused.body.error.code, 'no_capacity')
    assert.equal(refused.headers['retry-after'], '1')
    // Ordinary requests of accounts that hold no memory are still served.
    assert.equal((await medium(others)).status, 200)

    await leave(open)
    await until(async () => (await large(others)).status === 200)
  })

  it('is limited to half for one account, so that it cannot lock out others', async () => {
    const [mine = '', theirs = ''] = keys
    const { socket } = begin(mine, { sent: 2 * MIB - 400 })
    await until(() => isFull(mine))

    assert.equal((await medium(mine)).status, 503)
    assert.equal((await small(theirs)).status, 200)
    await leave([socket])
  })

  it('keeps a reserve for another account, however many accounts hold large bodies', async () => {
    const [mine = '', theirs = '', third = '', others = ''] = keys
    const all = [mine, theirs, third].flatMap((key) => [1, 2, 3].map(() => begin(key, { sent: MIB })))
    await until(() => all.some(({ answer }) => answer.text.startsWith('HTTP/1.1 503')))
    await sleep(200)

    const { status } = await api.call('POST', '/api/builder/v1/take', {
      key: others,
      body: { fill: 'x'.repeat(100_000) },
    })
    assert.equal(status, 200)
    await leave(all.map(({ socket }) => socket))
  })

  it('is not granted to a caller that only claims to be a node', async () => {
    const node = await signedNode(api)
    const { status } = await node.post('/api/builder/v1/take-of-node', { fill: 'x'.repeat(300_000) })
    assert.equal(status, 200)
    const stranger = begin('', { sent: MIB, path: 'take-of-node' })

    await until(() => stranger.answer.text.startsWith('HTTP/1.1 422'))
    await leave([stranger.socket])
  })

  it('is reserved for received bytes, not for announced ones', async () => {
    const [mine = '', theirs = ''] = keys
    const idle = [1, 2, 3].map(() => begin(mine, { sent: 10, length: 2 * MIB - 1 }))
    assert.equal((await small(mine)).status, 200)

    for (const { socket } of idle) socket.write(Buffer.alloc(MIB, ' '))
    await until(() => idle.some(({ answer }) => /^HTTP\/1\.1 503 [^]*"no_capacity"/.test(answer.text)))
    assert.equal((await small(theirs)).status, 200)
    await leave(idle.map(({ socket }) => socket))
  })

  it('survives many large bodies at once: each gets 200 or 503', async () => {
    const body = { fill: 'x'.repeat(900_000) }
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        api.call('POST', '/api/builder/v1/take', { key: keys[i % 4] ?? '', body }),
      ),
    )

    const statuses = new Set(answers.map(({ status }) => status))
    assert.ok(statuses.has(200))
    assert.deepEqual(
      [...statuses].filter((status) => status !== 200 && status !== 503),
      [],
    )
    for (const key of keys) assert.equal((await small(key)).status, 200)
  })

  it('rejects a body with 413 if it, or its parsed values, could never fit', async () => {
    const [key = ''] = keys
    const large = await api.call('POST', '/api/builder/v1/take', { key, raw: Buffer.alloc(3 * MIB, ' ') })
    const many = await api.call('POST', '/api/builder/v1/take', {
      key,
      raw: `{"fill":[${'{},'.repeat(300_000)}{}]}`,
    })

    assert.equal(large.status, 413)
    assert.equal(large.body.error.message, 'the body is larger than 2 MB (2097152 bytes)')
    assert.equal(many.status, 413)
    assert.match(many.body.error.message, /too many values/)
  })
})

describe('the parsed size of JSON values', () => {
  const parsedBytes = (json: Buffer): number => weighJson(json).bytes

  it("is about the text's length for long strings, and far more for many small values", () => {
    const image = parsedBytes(Buffer.from(JSON.stringify({ image: 'x'.repeat(100_000) })))
    assert.ok(image >= 100_000 && image < 100_100)
    assert.ok(parsedBytes(Buffer.from(`[${'{},'.repeat(1000)}{}]`)) > 30_000)
    assert.ok(parsedBytes(Buffer.from(JSON.stringify(['{{{{', '\\"{{{{', 'a"b{{{']))) < 500)
  })

  it('is counted correctly after strings with any escapes', () => {
    const objects = `[${'{},'.repeat(1000)}{}]`
    for (const text of ['\\', '"', '\\"', '"\\', 'a"b"c', '"{"[,']) {
      const body = `{"a":${JSON.stringify(text)},"b":${objects}}`
      assert.ok(parsedBytes(Buffer.from(body)) > 30_000, body.slice(0, 40))
    }
  })
})
