import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import {
  connect as connectHttp2,
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2'
import { connect, type Server, type Socket } from 'node:net'
import { createServer } from 'node:tls'
import type { Certificates } from './certificates.ts'

/** A proxy that terminates TLS in front of a test Temporal server. */
export interface TemporalProxy extends AsyncDisposable {
  address: string
}

/** Starts a proxy that accepts clients with a certificate from the authority. */
export function startTlsProxy(upstream: string, certificates: Certificates): Promise<TemporalProxy> {
  const { ca, cert, key } = certificates
  const options = {
    ca: readFileSync(ca),
    cert: readFileSync(cert),
    key: readFileSync(key),
    requestCert: true,
    rejectUnauthorized: true,
    ALPNProtocols: ['h2'],
  }
  const server = createServer(options, (socket) => {
    const inner = to(upstream)
    socket.pipe(inner).pipe(socket)
    for (const [one, other] of [
      [socket, inner],
      [inner, socket],
    ] as const) {
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
    }
  })
  return listening(server)
}

const UNAUTHENTICATED = '16'

/** Starts a proxy that accepts calls with the key, over TLS. */
export async function startKeyProxy(
  upstream: string,
  apiKey: string,
  { cert, key }: Certificates,
): Promise<TemporalProxy> {
  const inner = connectHttp2(`http://${upstream}`)
  inner.on('error', () => {})
  const server = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key) })
  server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    stream.on('error', () => {})
    if (headers.authorization !== `Bearer ${apiKey}`) {
      const errorTrailers = { 'grpc-status': UNAUTHENTICATED, 'grpc-message': 'no such key' }
      stream.respond(
        { ':status': 200, 'content-type': 'application/grpc', ...errorTrailers },
        { endStream: true },
      )
      return
    }
    const call = inner.request(headers)
    call.on('error', () => stream.close())
    stream.on('close', () => call.close())
    stream.pipe(call)
    let trailers: IncomingHttpHeaders = {}
    call.on('trailers', (innerTrailers: IncomingHttpHeaders) => (trailers = innerTrailers))
    call.on('response', (head, flags) => {
      const isAll = (flags & 1) !== 0
      stream.respond(head, { endStream: isAll, waitForTrailers: !isAll })
      if (!isAll) call.pipe(stream)
    })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  })
  const proxy = await listening(server)
  return {
    address: proxy.address,
    async [Symbol.asyncDispose]() {
      inner.destroy()
      await proxy[Symbol.asyncDispose]()
    },
  }
}

function to(address: string): Socket {
  const { hostname, port } = new URL(`tcp://${address}`)
  return connect(Number(port), hostname)
}

async function listening(server: Server): Promise<TemporalProxy> {
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
  })
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const bound = server.address()
  const port = typeof bound === 'object' && bound ? bound.port : 0
  return {
    address: `127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}
