import { once } from 'node:events'
import { open } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { type ByteSpan, spanOf } from './byte-range.ts'
import { candidatesAt, type EdgeCandidate } from './candidates.ts'
import { makeCertificate } from './certificate.ts'
import type { EdgeSession } from './edge-session.ts'
import type { PayloadStore } from './payload-store.ts'
import type { EdgeAttempt, Payload } from './payload.ts'
import { sendFile } from './send-file.ts'
import { MAX_MESSAGE_BYTES } from './session-frames.ts'
import { Tickets } from './tickets.ts'

const PATH = /^\/edges\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/([1-9]\d{0,8})$/
const BEARER = /^Bearer ([\x21-\x7e]{16,200})$/
const MAX_CONNECTIONS = 512
const MAX_HEADER_BYTES = 8_192
const REQUEST_TIMEOUT_MS = 10_000
/** How long a reader may go without reading anything. */
const IDLE_TIMEOUT_MS = 60_000
/** The keep-alive interval for consumers that are waiting for a payload. */
const KEEP_ALIVE_INTERVAL_MS = 2_000
/** With more readers than this, each gets smaller buffers, so that memory stays bounded. */
const FULL_SPEED_READERS = 4
const SMALL_BUFFER = 64 * 1024

/** The address on which a node listens for the consumers of its payloads. */
export interface EdgeListen {
  host: string
  port: number
}

/**
 * Serves payloads to nodes with a valid ticket, under a key that those nodes get from the platform. Without a ticket,
 * every path returns 401 or 404.
 */
export class EdgeServer implements AsyncDisposable {
  readonly #store: PayloadStore
  readonly #tickets = new Tickets()
  readonly #server: Server
  readonly spkiSha256: string
  readonly #sessions = new Map<string, { attempt: number; session: EdgeSession }>()
  readonly #upgrades = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    clientTracking: false,
    maxPayload: MAX_MESSAGE_BYTES,
  })
  #readers = 0

  static async start(store: PayloadStore, listen: EdgeListen): Promise<EdgeServer> {
    const { cert, key, spkiSha256 } = await makeCertificate()
    const server = createServer({
      cert,
      key,
      minVersion: 'TLSv1.3',
      // AES-128 takes a third less CPU than AES-256, the default, and is strong enough.
      ciphers: 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384',
      maxHeaderSize: MAX_HEADER_BYTES,
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      handshakeTimeout: REQUEST_TIMEOUT_MS,
    })
    server.maxConnections = MAX_CONNECTIONS
    server.timeout = IDLE_TIMEOUT_MS
    server.listen(listen.port, listen.host)
    await once(server, 'listening')
    return new EdgeServer(store, server, spkiSha256)
  }

  private constructor(store: PayloadStore, server: Server, spkiSha256: string) {
    this.#store = store
    this.#server = server
    this.spkiSha256 = spkiSha256
    server.on('request', (req, res) => void this.#answer(req, res))
    server.on('upgrade', (req, socket, head) => this.#upgrade(req, socket, head))
  }

  get candidates(): EdgeCandidate[] {
    return candidatesAt(this.#server.address() as AddressInfo)
  }

  /** Admits the consumer of an attempt, which must start within `beginWithinMs`. Ends earlier attempts of the edge. */
  admit(at: EdgeAttempt, ticket: { ticketSha256: string; beginWithinMs: number }): void {
    this.#tickets.admit(at, ticket)
  }

  /** Lets the consumer of an attempt connect to this session. */
  serveSession({ edgeId, attempt }: EdgeAttempt, session: EdgeSession): void {
    this.#sessions.get(edgeId)?.session.destroy()
    this.#sessions.set(edgeId, { attempt, session })
  }

  /** Ends an attempt along with its connections and session. */
  end(at: EdgeAttempt): void {
    this.#tickets.end(at)
    const served = this.#sessions.get(at.edgeId)
    if (!served || served.attempt > at.attempt) return
    this.#sessions.delete(at.edgeId)
    served.session.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#tickets.endAll()
    for (const { session } of this.#sessions.values()) session.destroy()
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }

  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const ticket = ticketIn(req)
    const at = attemptIn(req.url)
    const served = at && this.#sessions.get(at.edgeId)
    if (ticket === undefined || !at || served?.attempt !== at.attempt || !this.#tickets.admits(at, ticket)) {
      socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
      return
    }
    this.#tickets.begin(at, socket)
    socket.once('close', () => this.#tickets.over(at, socket))
    this.#upgrades.handleUpgrade(req, socket, head, (connection) => served.session.attach(connection))
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const ticket = ticketIn(req)
    if (ticket === undefined) return refuse(res, 401, { 'www-authenticate': 'Bearer' })
    const at = attemptIn(req.url)
    // Don't let the bearer of a wrong ticket find out which edges exist.
    if (!at || !this.#tickets.admits(at, ticket)) return refuse(res, 404)
    if (req.method === 'HEAD') return this.#probed(at, res)
    if (req.method !== 'GET') return refuse(res, 405, { allow: 'GET, HEAD' })
    const left = new AbortController()
    res.once('close', () => left.abort())
    const ending = { destroy: () => void res.destroy() }
    this.#tickets.begin(at, ending)
    try {
      await this.#send(await this.#awaited(at, res, left.signal), req, res)
    } catch {
      // The reader disconnected, or the attempt ended. A clean end would make the response look complete.
      res.destroy()
    } finally {
      this.#tickets.over(at, ending)
    }
  }

  #probed(at: EdgeAttempt, res: ServerResponse): void {
    const payload = this.#store.find(at)
    res.writeHead(200, payload && headersOf(payload, { start: 0, end: payload.sizeBytes })).end()
  }

  /** Waits for the payload: consumers connect while it is still being produced, so the bytes can flow at once. */
  async #awaited(at: EdgeAttempt, res: ServerResponse, signal: AbortSignal): Promise<Payload> {
    const payload = this.#store.find(at)
    if (payload) return payload
    const signs = setInterval(() => res.writeProcessing(), KEEP_ALIVE_INTERVAL_MS)
    try {
      return await this.#store.whenHeld(at, signal)
    } finally {
      clearInterval(signs)
    }
  }

  async #send(payload: Payload, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const asked = spanOf(req.headers.range, payload.sizeBytes)
    if (asked === 'unsatisfiable')
      return refuse(res, 416, { 'content-range': `bytes */${payload.sizeBytes}` })
    const span = asked === 'whole' ? { start: 0, end: payload.sizeBytes } : asked
    await using file = await open(payload.path, 'r')
    res.writeHead(asked === 'whole' ? 200 : 206, {
      ...headersOf(payload, span),
      ...(asked !== 'whole' && {
        'content-range': `bytes ${span.start}-${span.end - 1}/${payload.sizeBytes}`,
      }),
    })
    this.#readers += 1
    try {
      await sendFile(file, span, res, this.#readers > FULL_SPEED_READERS ? SMALL_BUFFER : undefined)
      res.end()
    } finally {
      this.#readers -= 1
    }
  }
}

const ticketIn = ({ headers }: IncomingMessage): string | undefined =>
  BEARER.exec(headers.authorization ?? '')?.[1]

function attemptIn(path: string | undefined): EdgeAttempt | undefined {
  const [, edgeId, attempt] = PATH.exec(path ?? '') ?? []
  return edgeId === undefined ? undefined : { edgeId, attempt: Number(attempt) }
}

const headersOf = ({ sha256 }: Payload, { start, end }: ByteSpan) => ({
  'content-type': 'application/octet-stream',
  'content-length': end - start,
  'accept-ranges': 'bytes',
  etag: `"${sha256}"`,
  'repr-digest': `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`,
  'cache-control': 'no-store',
})

/** Rejects a request and closes the connection: a rejected caller has no further requests. */
function refuse(res: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  res.writeHead(status, { ...headers, 'content-length': '0', connection: 'close' }).end()
}
