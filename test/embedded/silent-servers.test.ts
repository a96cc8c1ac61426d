import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { ensureDatabase } from '../../embedded/postgres.ts'
import { localPlace, queueIsPolled, temporalReady } from '../../embedded/temporal/server.ts'

const GRPC_UNIMPLEMENTED = '12'

async function listening(server: Server): Promise<AsyncDisposable & { port: number }> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Accepts connections, as a Temporal server does while it starts, and leaves every call unanswered. */
function silentTemporal(): Promise<AsyncDisposable & { port: number }> {
  const server = createHttp2Server()
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    if (!headers[':path']?.endsWith('GetSystemInfo')) return
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': GRPC_UNIMPLEMENTED }))
    stream.end()
  })
  return listening(server as unknown as Server)
}

describe('a start whose servers say nothing', () => {
  it('does not wait for PostgreSQL longer than it was told to', async () => {
    await using server = await listening(createServer())
    const cluster = { dataDir: '/nowhere', port: server.port, password: 'x' }

    await assert.rejects(ensureDatabase(cluster, 300), /PostgreSQL did not start/)
  })

  it('does not wait for an answer of Temporal longer than it was told to', async () => {
    await using server = await silentTemporal()
    const place = localPlace(`127.0.0.1:${server.port}`, 'default')

    await assert.rejects(temporalReady(place, { timeoutMs: 300 }), /no Temporal server answers/)
    await assert.rejects(queueIsPolled(place, 'control', 300))
  })

  it('names the log of a Temporal server that it started itself, and no setting', async () => {
    await using server = await silentTemporal()
    const place = localPlace(`127.0.0.1:${server.port}`, 'default')
    const ready = temporalReady(place, { timeoutMs: 300, log: '/data/logs/temporal.log' })

    await assert.rejects(ready, (err: Error) => {
      assert.match(err.message, /^The embedded Temporal server did not answer .*\/data\/logs\/temporal\.log/)
      assert.doesNotMatch(err.message, /TEMPORAL_ADDRESS/)
      return true
    })
  })
})
