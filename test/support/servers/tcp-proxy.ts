import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { Transform } from 'node:stream'

/** A TCP proxy that can disturb the bytes of responses. */
export interface TcpProxy extends AsyncDisposable {
  port: number
  /** The connections made to it so far. */
  connections: number
  /** The number of open connections, from clients and to the target. */
  readonly open: number
  /** The number of response bytes forwarded so far. */
  bytes: number
  /** Flips the n-th response byte, counted over all connections; once. */
  flipAt: number | undefined
  /** Cuts the connection before this response byte; once. */
  cutAt: number | undefined
  /** The delay of each piece of a response. */
  paceMs: number
  /** Stops forwarding responses while the connection stays open. */
  isMute: boolean
}

/** Starts a proxy in front of a local port. */
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
