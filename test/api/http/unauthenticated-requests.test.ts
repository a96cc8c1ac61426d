import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { RemoteAddresses } from '../../../platform/remote-address.ts'
import { until } from '../../support/assertions/until.ts'
import { connectTo, startApi, type TestApi } from '../../support/servers/api.ts'
import { signedNode } from '../../support/servers/nodes/signed-node.ts'

const KIB = 1024

/** Sends a head and part of its body, and collects the response. */
function begin(api: TestApi, lines: string[], body: string | Buffer = '') {
  const socket = connectTo(api.baseUrl)
  socket.write(`${[...lines, 'host: x'].join('\r\n')}\r\n\r\n`)
  socket.write(body)
  const answer = { text: '' }
  socket.on('data', (data) => (answer.text += String(data))).on('error', () => {})
  return { socket, answer }
}
const leave = (all: { socket: Socket }[]) => all.forEach(({ socket }) => socket.destroy())

/** Creates an account with a dataset; returns a function that starts uploads to it. */
async function datasetOf(api: TestApi) {
  const { accountId, key } = await api.account()
  const datasets = '/api/builder/v1/datasets'
  const { body } = await api.call('POST', datasets, {
    key,
    body: { dataset_name: accountId, storage_format: 'csv' },
  })
  const upload = async () => {
    const answer = await api.call('POST', `${datasets}/${body.dataset_id}/uploads/init`, {
      key,
      body: { filename: 'a.csv', content_type: 'text/csv' },
    })
    return new URL(answer.body.signed_url)
  }
  return { accountId, upload }
}

describe('callers without a valid credential', () => {
  it('do not take memory that accounts need for bodies', async () => {
    await using api = await startApi({ env: { HEARTH_BODY_MEMORY_MB: '8' } })
    const { key } = await api.account()
    const node = await signedNode(api)
    assert.notEqual((await node.post(`/api/v1/leases/${newId()}:complete`, {})).status, 401)
    const json = ['content-type: application/json', 'transfer-encoding: chunked']
    const sent = 60 * KIB
    const chunk = `${sent.toString(16)}\r\n${' '.repeat(sent)}\r\n`
    const claimed = (nodeId: string, accountId: string) => [
      `POST /api/v1/leases/${newId()}:complete HTTP/1.1`,
      `x-node-id: ${nodeId}`,
      `x-account-id: ${accountId}`,
      `x-node-timestamp: ${Date.now()}`,
      `x-node-body-sha256: ${'0'.repeat(64)}`,
      `x-node-signature: ${Buffer.alloc(64).toString('base64')}`,
      ...json,
    ]
    const open = Array.from({ length: 66 }, (_, i) => {
      if (i % 3 === 0) {
        const head = ['POST /api/v1/nodes:join HTTP/1.1', `authorization: Bearer ${newId()}`, ...json]
        return begin(api, head, `2000\r\n${' '.repeat(0x2000)}\r\n`)
      }
      return begin(api, i % 3 === 1 ? claimed(newId(), newId()) : claimed(node.nodeId, node.accountId), chunk)
    })
    await until(() => open.filter(({ answer }) => answer.text.startsWith('HTTP/1.1 401')).length === 44)

    const { status } = await api.call('POST', '/api/builder/v1/endpoints/none/infer', {
      key,
      body: { input: { text: 'x'.repeat(400 * KIB) } },
    })
    assert.equal(status, 404)
    leave(open)
  })

  it('may send at most 16 KB to nodes:join', async () => {
    await using api = await startApi()
    const headers = { authorization: 'Bearer x', 'content-type': 'application/json' }
    const { status } = await api.call('POST', '/api/v1/nodes:join', { headers, raw: ' '.repeat(17 * KIB) })

    assert.equal(status, 413)
  })

  it("cannot block other accounts' uploads, and neither can one account with signed URLs", async () => {
    await using api = await startApi({ env: { HEARTH_BODY_MEMORY_MB: '8' } })
    const [mine, theirs] = [await datasetOf(api), await datasetOf(api)]
    const open: ReturnType<typeof begin>[] = []
    for (let i = 0; i < 40; i++) {
      const { pathname, search } = await mine.upload()
      open.push(
        begin(
          api,
          [`PUT ${pathname}${search} HTTP/1.1`, 'content-type: text/csv', 'content-length: 900000'],
          'x',
        ),
      )
    }
    await until(() => open.some(({ answer }) => answer.text.startsWith('HTTP/1.1 503')))
    const forged = begin(api, [
      `PUT /objects/${encodeURIComponent(`incoming/${theirs.accountId}/a/b/data.upload`)}?method=PUT&expires=9999999999&signature=x HTTP/1.1`,
      'content-length: 900000',
    ])
    await until(() => forged.answer.text.startsWith('HTTP/1.1 403'))

    const url = await theirs.upload()
    const { status } = await api.call('PUT', `${url.pathname}${url.search}`, {
      raw: 'y'.repeat(300 * KIB),
      headers: { 'content-type': 'text/csv' },
    })
    assert.equal(status, 200)
    leave([...open, forged])
  })

  it('are disconnected when they stop reading a response for too long', async () => {
    await using api = await startApi({ idleLimits: { answerIdleMs: 3_000, sweepMs: 100 } })
    const key = `datasets/${newId()}/a/b/data.upload`
    await api.services.objects.put(key, Buffer.alloc(40 * KIB * KIB), {
      contentType: 'text/plain',
      maxBytes: 1e9,
    })
    const { url } = await api.services.objects.signGet(key, { expiresInS: 60 })
    const { pathname, search } = new URL(url)
    const open = (): Socket => {
      const socket = connectTo(api.baseUrl)
      socket.write(`GET ${pathname}${search} HTTP/1.1\r\nhost: x\r\n\r\n`)
      return socket.on('error', () => {})
    }
    const still = [open(), open(), open()]
    for (const socket of still) socket.pause()
    const reader = open()
    let read = 0
    // The body is slow, but makes progress.
    reader.on('data', (chunk) => {
      read += chunk.length
      reader.pause()
      setTimeout(() => reader.resume(), 5)
    })

    await until(async () => (await api.connections()) <= 1)
    await until(() => read > 40 * KIB * KIB, 60_000)
    for (const socket of [...still, reader]) socket.destroy()
  })

  it('get 408 when a body stalls, whatever its kind', async () => {
    await using api = await startApi({ idleLimits: { bodyIdleMs: 300, sweepMs: 50 } })
    const { key } = await api.account()
    const post = (...rest: string[]) => [
      'POST /api/builder/v1/training/runs HTTP/1.1',
      `x-api-key: ${key}`,
      ...rest,
    ]
    const json = 'content-type: application/json'
    const form = [
      'POST /api/builder/v1/datasets/upload HTTP/1.1',
      `x-api-key: ${key}`,
      'content-type: multipart/form-data; boundary=b',
      'content-length: 5000',
    ]
    const part = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,b\n'
    const all = [
      begin(api, post(json, 'content-length: 50'), '{'),
      begin(api, post(json, 'transfer-encoding: chunked'), '1\r\n{\r\n'),
      begin(api, form, part),
      begin(api, ['POST /v1/chat/completions HTTP/1.1', `x-api-key: ${key}`, json, 'content-length: 9'], '{'),
    ]
    await Promise.all(all.map(async ({ socket }) => socket.closed || once(socket, 'close')))

    for (const { answer } of all) {
      assert.match(answer.text, /^HTTP\/1\.1 408 /)
      assert.match(answer.text, /connection: close/)
      assert.match(answer.text, /"code":"request_timeout"/)
    }
  })

  it('cause few database look-ups, however many keys they try', async () => {
    await using api = await startApi({ env: { HEARTH_ADDRESS_RATE: '40' } })
    const { key } = await api.account()
    const transactions = async () => {
      const { rows } = await sql<{ n: number }>`
        select xact_commit::int as n from pg_stat_database where datname = current_database()`.execute(
        api.database.db,
      )
      return rows[0]?.n ?? 0
    }
    await sleep(1_500)
    const before = await transactions()
    const statuses = new Map<number, number>()
    for (let round = 0; round < 15; round++) {
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, i) =>
          api.call('GET', i % 2 ? '/api/builder/v1/endpoints' : '/v1/models', { key: `hk_${newId()}` }),
        ),
      )
      for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    await sleep(1_500)

    assert.ok((statuses.get(429) ?? 0) > 1_000)
    assert.ok((await transactions()) - before < 300)
    assert.equal((await api.call('GET', '/api/builder/v1/endpoints', { key })).status, 200)
  })

  it('do not affect a known account at the same address', async () => {
    await using api = await startApi({ env: { HEARTH_ADDRESS_RATE: '1' } })
    const { key } = await api.account()
    assert.equal((await api.call('GET', '/api/builder/v1/endpoints', { key })).status, 200)
    const health = await Promise.all(
      Array.from({ length: 20 }, () => api.call('GET', '/api/builder/v1/health')),
    )

    assert.ok(health.some(({ status, headers }) => status === 429 && Number(headers['retry-after']) >= 1))
    assert.equal((await api.call('GET', '/api/builder/v1/endpoints', { key })).status, 200)
  })

  it('have their oldest connections closed, while those of accounts stay open', async () => {
    await using api = await startApi({ env: { HEARTH_ADDRESS_CONNECTIONS: '5' } })
    const { key } = await api.account()
    const authenticated = begin(api, ['GET /api/builder/v1/endpoints HTTP/1.1', `x-api-key: ${key}`])
    await until(() => authenticated.answer.text.startsWith('HTTP/1.1 200'))
    const strangers = Array.from({ length: 20 }, () => connectTo(api.baseUrl).on('error', () => {}))

    await until(async () => (await api.connections()) <= 7)
    assert.equal(authenticated.socket.destroyed, false)
    authenticated.socket.write(
      `GET /api/builder/v1/endpoints HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\n\r\n`,
    )
    await until(() => authenticated.answer.text.split('HTTP/1.1 200').length === 3)
    leave([authenticated, ...strangers.map((socket) => ({ socket }))])
  })
})

describe('the client address of a request', () => {
  const of = (proxies: string[], remoteAddress: string, forwarded?: string) =>
    new RemoteAddresses(proxies).of({
      socket: { remoteAddress } as Socket,
      headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
    })

  it('is the address of its connection, unless a trusted proxy names another', () => {
    assert.equal(of([], '10.0.0.1', '1.2.3.4'), '10.0.0.1')
    assert.equal(of(['10.0.0.0/8'], '::ffff:10.0.0.1', '9.9.9.9, 1.2.3.4, 10.0.0.2'), '1.2.3.4')
    assert.equal(of(['10.0.0.0/8'], '11.0.0.1', '1.2.3.4'), '11.0.0.1')
    assert.equal(of(['10.0.0.0/8'], '10.0.0.1', 'nonsense'), '10.0.0.1')
    assert.equal(of(['fd00::/8'], 'fd00::1', '2001:db8:1:2::9'), '2001:db8:1:2')
  })

  it('is the whole network for IPv6, because its owner controls all of it', () => {
    assert.equal(of([], '2001:db8::1'), of([], '2001:db8:0:0:ffff::1'))
    assert.notEqual(of([], '2001:db8:0:1::1'), of([], '2001:db8::1'))
  })
})
