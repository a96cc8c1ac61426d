import type { Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

interface Connection {
  /** Of the latest request, until a sweep has seen that it is finished. */
  response: ServerResponse | undefined
  /** Since when nothing is asked, by `performance.now()`; unset before the first request. */
  idleSince: number | undefined
}

/** Longer than that of usual load balancers, so that it is they who close idle connections. */
const KEEP_ALIVE_S = 65
/** Tells clients how long they may count on a connection. */
export const KEEP_ALIVE = `timeout=${KEEP_ALIVE_S}`
/** A request that was sent at the last moment still arrives. */
const IDLE_MS = (KEEP_ALIVE_S + 1) * 1_000
/** A connection is closed at most two of these late. */
const SWEEP_MS = 5_000

/** For tests: how long a connection may stay idle, and how often all are looked at. */
export interface IdleLimits {
  idleMs?: number
  sweepMs?: number
}

/**
 * Closes connections on which a client has long asked nothing more. The server's own limit sets a timer twice per request;
 * this looks at all connections now and then.
 */
export class IdleConnections {
  readonly #idleMs: number
  readonly #open = new Map<Duplex, Connection>()

  constructor(server: Server, { idleMs = IDLE_MS, sweepMs = SWEEP_MS }: IdleLimits = {}) {
    this.#idleMs = idleMs
    server.keepAliveTimeout = 0
    server.on('connection', (socket: Duplex) => {
      this.#open.set(socket, { response: undefined, idleSince: undefined })
      socket.once('close', () => this.forget(socket))
    })
    server.once('listening', () => {
      const timer = setInterval(() => this.#sweep(performance.now()), sweepMs).unref()
      server.once('close', () => clearInterval(timer))
    })
  }

  /** A request has come. */
  note(socket: Duplex, response: ServerResponse): void {
    const connection = this.#open.get(socket)
    if (connection) connection.response = response
  }

  /** It has closed, or carries something else than requests from now on. */
  forget(socket: Duplex): void {
    this.#open.delete(socket)
  }

  #sweep(now: number): void {
    for (const [socket, connection] of this.#open) {
      const { response, idleSince } = connection
      if (response) {
        if (!response.writableFinished && !response.destroyed) continue
        connection.response = undefined
        connection.idleSince = now
      } else if (idleSince !== undefined && now - idleSince >= this.#idleMs) socket.destroy()
    }
  }
}
