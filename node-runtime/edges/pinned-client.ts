import type { OnReadOpts } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { buildConnector, Client } from 'undici'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { spkiSha256Of } from './certificate.ts'
import type { EdgeAttempt } from './payload.ts'

const CONNECT_TIMEOUT_MS = 5_000
const MAX_HEADER_BYTES = 8_192

/** The producer's end of an edge, as reported by the platform. */
export interface EdgePeer extends EdgeAttempt {
  /** One of the candidates, `https://host:port`. */
  url: string
  spkiSha256: string
  ticket: string
}

export const edgePath = ({ edgeId, attempt }: EdgeAttempt): string => `/edges/${edgeId}/${attempt}`
export const bearer = ({ ticket }: EdgePeer) => ({ authorization: `Bearer ${ticket}` })

interface ConnectOptions {
  timeout?: number
  /** Receives the bytes in a reused buffer. */
  onread?: OnReadOpts
  /** Closes connections, including those still being opened: the peer may never answer. */
  signal: AbortSignal
}

/** Opens connections to one candidate. Each must present the expected key before anything is sent on it. */
export function pinnedClient(peer: EdgePeer, connecting: ConnectOptions): Client {
  return new Client(originOf(peer.url), {
    allowH2: false,
    // The reader has its own silence timeout.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: MAX_HEADER_BYTES,
    connect: pinnedConnector(peer.spkiSha256, connecting),
  })
}

/** Opens one connection. */
export function connectPinned({ url, spkiSha256 }: EdgePeer, connecting: ConnectOptions): Promise<TLSSocket> {
  const { hostname, host, port } = new URL(originOf(url))
  const connect = pinnedConnector(spkiSha256, connecting)
  return new Promise((resolve, reject) =>
    connect({ hostname: hostname.replace(/^\[|\]$/g, ''), host, protocol: 'https:', port }, (err, socket) =>
      err ? reject(err) : resolve(socket as TLSSocket),
    ),
  )
}

function pinnedConnector(
  spkiSha256: string,
  { timeout = CONNECT_TIMEOUT_MS, onread, signal }: ConnectOptions,
): buildConnector.connector {
  const connect = buildConnector({
    // Nodes have no CA. The platform reports the digest of the peer's key, and TLS proves that the peer holds the key.
    rejectUnauthorized: false,
    // A resumed TLS session presents no certificate.
    maxCachedSessions: 0,
    minVersion: 'TLSv1.3',
    allowH2: false,
    timeout,
    signal,
    ...(onread && { onread }),
  })
  return (options, callback) =>
    connect(options, (err, socket) => {
      if (err) return callback(err, null)
      const shown = (socket as TLSSocket).getPeerX509Certificate()
      if (shown && spkiSha256Of(shown) === spkiSha256) return callback(null, socket)
      socket.destroy()
      callback(new EdgeError('unreachable', 'the peer at this address has a different key'), null)
    })
}

/** Returns a candidate's origin. Throws if anything follows it. */
function originOf(url: string): string {
  const { protocol, origin, href, username, password } = new URL(url)
  if (protocol !== 'https:' || username || password || href !== `${origin}/`)
    throw new EdgeError('unreachable', 'a candidate must have the form https://host:port')
  return origin
}
