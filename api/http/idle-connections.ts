import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
  /** Of the latest request, until a sweep has seen that it is finished. */
  response: ServerResponse | undefined
  /** Since when nothing is asked, by `performance.now()`; unset before the first request. */
  idleSince: number | undefined
  /** Bytes that had come and gone when a sweep last saw something new, and when that was. */
  bytes: number
  movedAt: number
}

/** Longer than that of usual load balancers, so that it is they who close idle connections. */
const KEEP_ALIVE_S = 65
/** Tells clients how long they may count on a connection. */
export const KEEP_ALIVE = `timeout=${KEEP_ALIVE_S}`
/** A request that was sent at the last moment still arrives. */
const IDLE_MS = (KEEP_ALIVE_S + 1) * 1_000
/** A body may be large and its line slow, but it has to go on. */
const BODY_IDLE_MS = 120_000
/** A connection is closed at most two of these late. */
const SWEEP_MS = 5_000

/** For tests: how long a connection may stay idle, or send nothing in the middle of a body, and how often all are looked at. */
export interface IdleLimits {
  idleMs?: number
  bodyIdleMs?: number
  sweepMs?: number
}

/**
 * Closes connections on which a client has long asked nothing more, or has stopped in the middle of a body: it would hold
 * them, and what it sent, for ever. The server's own limits set timers for every request; this looks at all connections
 * now and then.
 */
export class IdleConnections {
  readonly #idleMs: number
  readonly #bodyIdleMs: number
  readonly #open = new Map<Socket, Connection>()

  constructor(
    server: Server,
    { idleMs = IDLE_MS, bodyIdleMs = BODY_IDLE_MS, sweepMs = SWEEP_MS }: IdleLimits = {},
  ) {
    this.#idleMs = idleMs
    this.#bodyIdleMs = bodyIdleMs
    server.keepAliveTimeout = 0
    server.on('connection', (socket: Socket) => {
      this.#open.set(socket, { response: undefined, idleSince: undefined, bytes: 0, movedAt: 0 })
      socket.once('close', () => this.forget(socket))
    })
    server.once('listening', () => {
      const timer = setInterval(() => this.#sweep(performance.now()), sweepMs).unref()
      server.once('close', () => clearInterval(timer))
    })
  }

  /** A request has come. */
  note(socket: Socket, response: ServerResponse): void {
    const connection = this.#open.get(socket)
    if (connection) connection.response = response
  }

  /** It has closed, or carries something else than requests from now on. */
  forget(socket: Socket): void {
    this.#open.delete(socket)
  }

  #sweep(now: number): void {
    for (const [socket, connection] of this.#open) {
      if (this.#isIdle(connection, socket.bytesRead + socket.bytesWritten, now)) socket.destroy()
    }
  }

  #isIdle(connection: Connection, bytes: number, now: number): boolean {
    const { response, idleSince } = connection
    if (!response) return idleSince !== undefined && now - idleSince >= this.#idleMs
    if (response.writableFinished || response.destroyed) {
      connection.response = undefined
      connection.idleSince = now
      return false
    }
    // Its body is here: the work that follows may take its time.
    if (response.req.complete) return false
    if (connection.bytes === bytes) return now - connection.movedAt >= this.#bodyIdleMs
    connection.bytes = bytes
    connection.movedAt = now
    return false
  }
}
