import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
  /** Of the latest request, until a sweep has seen that it is finished. */
  response: ServerResponse | undefined
  wasUsed: boolean
  bytesRead: number
  /** Since when nothing has come; `performance.now()`. */
  idleSince: number
}

/** Longer than that of usual load balancers, so that it is they who close idle connections. */
const KEEP_ALIVE_S = 65
/** Tells clients how long they may count on a connection. */
export const KEEP_ALIVE = `timeout=${KEEP_ALIVE_S}`
/** How late a connection is closed at most. */
const SWEEP_MS = 5_000

/**
 * Closes connections on which a client has long asked nothing more. The server's own limit sets a timer twice per request,
 * a fortieth of what a chat costs (bench/gateway); this looks at all connections now and then.
 */
export class IdleConnections {
  readonly #idleMs: number
  readonly #open = new Map<Socket, Connection>()

  /** @param options `idleMs`: how long a connection may stay idle; `sweepMs`: how often they are looked at. */
  constructor(server: Server, { idleMs = KEEP_ALIVE_S * 1_000, sweepMs = SWEEP_MS } = {}) {
    this.#idleMs = idleMs
    server.keepAliveTimeout = 0
    server.on('connection', (socket: Socket) => {
      this.#open.set(socket, { response: undefined, wasUsed: false, bytesRead: 0, idleSince: 0 })
      socket.once('close', () => this.#open.delete(socket))
    })
    const timer = setInterval(() => this.#sweep(performance.now()), sweepMs).unref()
    server.once('close', () => clearInterval(timer))
  }

  /** A request has come. */
  note(socket: Socket, response: ServerResponse): void {
    const connection = this.#open.get(socket)
    if (connection) connection.response = response
  }

  #sweep(now: number): void {
    for (const [socket, connection] of this.#open) {
      const { response } = connection
      if (response && !response.writableFinished && !response.destroyed) continue
      if (response) {
        connection.response = undefined
        connection.wasUsed = true
        connection.idleSince = now
      }
      // The first request is the server's to wait for.
      if (!connection.wasUsed) continue
      if (connection.bytesRead !== socket.bytesRead) {
        connection.bytesRead = socket.bytesRead
        connection.idleSince = now
      } else if (now - connection.idleSince >= this.#idleMs) socket.destroy()
    }
  }
}
