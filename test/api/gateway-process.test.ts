import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { request } from 'undici'
import * as apiKeyRepository from '../../db/repositories/platform/api-keys.ts'
import { newId } from '../../domain/ids.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'
import { gatewayEnv, runGateway } from '../support/servers/gateway-process.ts'

describe('the gateway process', () => {
  let database: TestDatabase
  let folder: string
  let env: NodeJS.ProcessEnv
  before(async () => {
    database = await startDatabase()
    folder = await mkdtemp(join(tmpdir(), 'hearth-main-'))
    env = gatewayEnv(database.url, folder)
  })
  after(async () => {
    await database[Symbol.asyncDispose]()
    await rm(folder, { recursive: true, force: true })
  })

  it('starts, logs each request without its key or query, and stops on a signal', async () => {
    await using gateway = runGateway(env)
    const { baseUrl } = await gateway.ready()
    const accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'a' }).execute()
    const { key } = await database.db
      .transaction()
      .execute((trx) => apiKeyRepository.createApiKey(trx, { accountId, name: 'k', role: 'admin' }))

    const answer = await request(`${baseUrl}/api/builder/v1/datasets?signature=s3cret`, {
      headers: { 'x-api-key': key },
    })
    await answer.body.dump()
    const line = await gateway.line(({ path }) => path === '/api/builder/v1/datasets')
    gateway.child.kill('SIGTERM')
    const [code] = await once(gateway.child, 'exit')

    assert.equal(answer.statusCode, 200)
    assert.equal(line.request_id, answer.headers['x-request-id'])
    assert.equal(line.account_id, accountId)
    assert.equal(line.operation, 'listDatasets')
    assert.equal(line.status, 200)
    assert.doesNotMatch(JSON.stringify(gateway.lines), new RegExp(`${key}|s3cret`))
    assert.equal(code, 0)
    assert.ok(gateway.lines.some(({ msg }) => msg === 'the gateway has stopped'))
  })

  it('logs malformed requests under the request id in the response', async () => {
    await using gateway = runGateway(env)
    const { baseUrl } = await gateway.ready()
    const send = async (text: string): Promise<string> => {
      const socket = connect(Number(new URL(baseUrl).port), '127.0.0.1')
      socket.end(text)
      const [answer] = (await once(socket, 'data')) as [Buffer]
      socket.destroy()
      return String(answer)
    }

    const answers = [
      await send('junk\r\n\r\n'),
      await send(
        'POST /api/v1/nodes:join HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\ncontent-length: 9\r\n\r\n{',
      ),
    ]

    for (const [answer, message] of [
      [answers[0], 'this is not a well-formed HTTP request'],
      [answers[1], 'the request ended before it was complete'],
    ] as const) {
      const id = /x-request-id: (\S+)/.exec(answer ?? '')?.[1]
      assert.match(answer ?? '', new RegExp(`^HTTP/1\\.1 400 [^]*${message}`))
      const line = await gateway.line(({ request_id, msg }) => request_id === id && msg === message)
      assert.equal(line.status, 400)
    }
  })

  it('finishes the request in progress on SIGTERM and refuses new connections', async () => {
    await using gateway = runGateway(env)
    const { baseUrl } = await gateway.ready()
    const port = Number(new URL(baseUrl).port)
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(
      'POST /api/v1/nodes:join HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\ncontent-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n',
    )
    const [begun] = (await once(socket, 'data')) as [Buffer]

    gateway.child.kill('SIGTERM')
    await gateway.line(({ msg }) => msg === 'the gateway is stopping')
    const refused = connect(port, '127.0.0.1')
    const [err] = (await once(refused, 'error')) as [NodeJS.ErrnoException]
    socket.write('{}')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    const [code] = await once(gateway.child, 'exit')

    assert.match(begun.toString(), /^HTTP\/1\.1 100 /)
    assert.equal(err.code, 'ECONNREFUSED')
    assert.match(answer.toString(), /^HTTP\/1\.1 422 /)
    assert.equal(code, 0)
  })

  it('exits with code 2 on an invalid setting and names the setting', async () => {
    for (const [name, value] of [
      ['HEARTH_PORT', 'eighty'],
      ['HEARTH_ENCRYPTION_KEYS', 'short'],
      ['DATABASE_URL', ''],
    ] as const) {
      await using gateway = runGateway({ ...env, [name]: value })
      const [code] = await once(gateway.child, 'exit')
      const { msg } = await gateway.line(({ level }) => level === 60)

      assert.equal(code, 2)
      assert.match(msg ?? '', new RegExp(`^${name} must be`))
    }
  })

  it('answers input that is not HTTP with an error body', async () => {
    await using gateway = runGateway(env)
    const { baseUrl } = await gateway.ready()
    const say = async (text: string): Promise<string> => {
      const socket = connect(Number(new URL(baseUrl).port), '127.0.0.1')
      socket.write(text)
      const chunks: Buffer[] = []
      for await (const chunk of socket) chunks.push(chunk as Buffer)
      return Buffer.concat(chunks).toString()
    }

    const nonsense = await say('HELLO\r\n\r\n')
    const large = await say(`GET / HTTP/1.1\r\nhost: x\r\nx-a: ${'a'.repeat(20_000)}\r\n\r\n`)

    assert.match(nonsense, /^HTTP\/1\.1 400 [^]*"code":"bad_request"/)
    assert.match(large, /^HTTP\/1\.1 431 [^]*x-request-id: /)
  })
})
