import { once } from 'node:events'
import { chmod } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { Transform, type Duplex } from 'node:stream'
import type { PublicConnections } from '../../platform/egress/public-connections.ts'
import { SendError } from '../../platform/egress/public-sender.ts'

const MAX_CONNECTIONS = 16
/** The maximum number of bytes that one run may receive. */
const MAX_BYTES = 256 * 1024 * 1024

/**
 * A tool's only way out: a proxy on a Unix socket. It accepts `CONNECT name:443` and applies the egress policy to each
 * connection, and thus also to redirect targets. Serves one run.
 */
export class EgressProxy implements AsyncDisposable {
  readonly #connections: PublicConnections
  readonly #owner: string
  readonly #server: Server
  readonly #open = new Set<Duplex>()
  #received = 0

  private constructor(connections: PublicConnections, owner: string) {
    this.#connections = connections
    this.#owner = owner
    this.#server = createServer((_request, answer) => {
      answer.writeHead(405, { allow: 'CONNECT' }).end('this proxy only accepts CONNECT, for HTTPS\n')
    })
    this.#server.on('connect', (request, socket, head) => void this.#connect(request, socket, head))
    this.#server.on('clientError', (_err, socket) => socket.destroy())
    this.#server.on('connection', (socket) => this.#keep(socket))
  }

  static async listen(path: string, connections: PublicConnections, owner: string): Promise<EgressProxy> {
    const proxy = new EgressProxy(connections, owner)
    proxy.#server.listen(path)
    await once(proxy.#server, 'listening')
    // The tool runs as another user. Only its sandbox can reach the socket.
    await chmod(path, 0o777)
    return proxy
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#open) socket.destroy()
    await closed
  }

  #keep(socket: Duplex): void {
    this.#open.add(socket)
    socket.once('close', () => this.#open.delete(socket))
    socket.on('error', () => socket.destroy())
  }

  async #connect(request: IncomingMessage, inner: Duplex, head: Buffer): Promise<void> {
    if (this.#open.size > 2 * MAX_CONNECTIONS) return refuse(inner, 'too many concurrent connections')
    let outer: Socket
    try {
      outer = await this.#connections.open((request.url ?? '').replace(/:443$/, ''), this.#owner)
    } catch (err) {
      return refuse(inner, err instanceof SendError ? err.message : 'the connection failed')
    }
    if (inner.destroyed) return void outer.destroy()
    this.#keep(outer)
    inner.write('HTTP/1.1 200 Connection established\r\n\r\n')
    if (head.length > 0) outer.write(head)
    inner.pipe(outer)
    outer.pipe(this.#counted()).pipe(inner)
    for (const [one, other] of [
      [inner, outer],
      [outer, inner],
    ] as const)
      one.once('close', () => other.destroy())
  }

  #counted(): Transform {
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        this.#received += chunk.length
        if (this.#received > MAX_BYTES) for (const socket of this.#open) socket.destroy()
        done(null, chunk)
      },
    })
  }
}

function refuse(inner: Duplex, why: string): void {
  const body = `${why}\n`
  inner.end(
    `HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}
