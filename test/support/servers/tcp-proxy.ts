import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { Transform } from 'node:stream'

/** A TCP proxy that does something to the bytes of answers. */
export interface TcpProxy extends AsyncDisposable {
  port: number
  /** The connections made to it so far. */
  connections: number
  /** The connections that are open, of clients and to the port. */
  readonly open: number
  /** The bytes of answers that it has passed on. */
  bytes: number
  /** The n-th byte of answers, counted over all connections, changes on its way; once. */
  flipAt: number | undefined
  /** The connection is cut before this byte of answers; once. */
  cutAt: number | undefined
  /** The time that each piece of an answer waits. */
  paceMs: number
  /** Answers stop, with the connection open. */
  isMute: boolean
}

/** Starts a proxy in front of a port of this machine. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    proxy.connections += 1
    const upstream = connect(target, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.once('error', () => {})
      socket.once('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.pipe(upstream)
    upstream.pipe(answers(client)).pipe(client)
  })
  const answers = (client: Socket) =>
    new Transform({
      transform(chunk: Buffer, _encoding, done) {
        if (proxy.isMute) return
        const at = proxy.bytes
        proxy.bytes += chunk.length
        if (proxy.cutAt !== undefined && proxy.cutAt < proxy.bytes) {
          proxy.cutAt = undefined
          proxy.bytes = at
          client.destroy()
          return
        }
        if (proxy.flipAt !== undefined && proxy.flipAt < proxy.bytes) {
          chunk[proxy.flipAt - at]! ^= 1
          proxy.flipAt = undefined
        }
        if (proxy.paceMs > 0) setTimeout(() => done(null, chunk), proxy.paceMs)
        else done(null, chunk)
      },
    })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy: TcpProxy = {
    port: (server.address() as AddressInfo).port,
    connections: 0,
    get open() {
      return sockets.size
    },
    bytes: 0,
    flipAt: undefined,
    cutAt: undefined,
    paceMs: 0,
    isMute: false,
    async [Symbol.asyncDispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
  return proxy
}
