import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { ensureDatabase } from '../../embedded/postgres.ts'
import { localPlace, queueIsPolled, temporalReady } from '../../embedded/temporal/server.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

const GRPC_UNIMPLEMENTED = '12'

async function listening(server: Server, socket?: string): Promise<AsyncDisposable & { port: number }> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  if (socket === undefined) server.listen(0, '127.0.0.1')
  else server.listen(socket)
  await once(server, 'listening')
  return {
    port: (server.address() as Partial<AddressInfo>).port ?? 0,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Accepts connections like a Temporal server that is starting, and never answers a call. */
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

describe('start with unresponsive servers', () => {
  it('stops waiting for PostgreSQL after the configured time', async () => {
    using folder = temporaryFolder()
    const reached: string[] = []
    const over = (what: string) => createServer(() => reached.push(what))
    await using _socket = await listening(over('socket'), join(folder.path, '.s.PGSQL.5432'))
    await using server = await listening(over('TCP'))
    // A socket path in the second folder would be too long.
    const clusters = [
      { dataDir: folder.path, port: 5_432, password: 'x' },
      { dataDir: `/${'nowhere'.repeat(20)}`, port: server.port, password: 'x' },
    ]

    for (const cluster of clusters)
      await assert.rejects(ensureDatabase(cluster, 300), /PostgreSQL did not start/)
    assert.deepEqual([...new Set(reached)], ['socket', 'TCP'])
  })

  it('stops waiting for Temporal after the configured time', async () => {
    await using server = await silentTemporal()
    const address = localPlace(`127.0.0.1:${server.port}`, 'default')

    await assert.rejects(temporalReady(address, { timeoutMs: 300 }), /no Temporal server responds/)
    await assert.rejects(queueIsPolled(address, 'control', 300))
  })

  it('names the log file instead of a setting for a Temporal server that it started', async () => {
    await using server = await silentTemporal()
    const address = localPlace(`127.0.0.1:${server.port}`, 'default')
    const ready = temporalReady(address, { timeoutMs: 300, log: '/data/logs/temporal.log' })

    await assert.rejects(ready, (err: Error) => {
      assert.match(err.message, /^The embedded Temporal server did not respond .*\/data\/logs\/temporal\.log/)
      assert.doesNotMatch(err.message, /TEMPORAL_ADDRESS/)
      return true
    })
  })
})
