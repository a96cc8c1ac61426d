import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createSecureServer } from 'node:http2'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { generate } from 'selfsigned'

type Behaviour = (req: IncomingMessage, res: ServerResponse, body: Buffer) => void

/** A real HTTPS server on loopback, with names that only the test's resolver knows. */
export interface Receiver extends AsyncDisposable {
  readonly port: number
  /** `https://<name>:<port><path>` */
  url(path?: string, name?: string): string
  readonly connections: () => number
  /** PEM, for another process to trust. */
  readonly certificate: string
}

const TRUSTED_NAMES = ['receiver.test', 'other.test', 'localhost']

/** Starts a receiver whose certificate this process trusts for `TRUSTED_NAMES`, or an untrusted one. */
export async function startReceiver(
  behaviour: Behaviour,
  { address = '127.0.0.1', trusted = true, http2 = false } = {},
): Promise<Receiver> {
  const { private: key, cert } = await (trusted
    ? (trustedCertificate ??= trustOne())
    : certificate('stranger'))

  let connections = 0
  const sockets = new Set<Socket>()
  const take = (req: IncomingMessage, res: ServerResponse) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => behaviour(req, res, Buffer.concat(chunks)))
  }
  const server = http2
    ? createSecureServer({ key, cert, allowHTTP1: true }, (req, res) =>
        take(req as unknown as IncomingMessage, res as unknown as ServerResponse),
      )
    : createServer({ key, cert }, take)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('secureConnection', () => connections++)
  server.listen(0, address)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: (path = '/', name = TRUSTED_NAMES[0]) => `https://${name}:${port}${path}`,
    connections: () => connections,
    certificate: cert,
    async [Symbol.asyncDispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

let trustedCertificate: ReturnType<typeof certificate> | undefined

async function trustOne() {
  const made = await certificate('receiver')
  setDefaultCACertificates([...getCACertificates('default'), made.cert])
  return made
}

function certificate(name: string) {
  return generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    extensions: [
      { name: 'basicConstraints', cA: true },
      { name: 'subjectAltName', altNames: TRUSTED_NAMES.map((value) => ({ type: 2 as const, value })) },
    ],
  })
}
