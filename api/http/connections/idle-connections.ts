import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
  /** The latest request's response, until a sweep sees that it is finished. */
  response: ServerResponse | undefined
  /** When the connection became idle, by `performance.now()`; unset before the first request. */
  idleSince: number | undefined
  /** The response that the following fields describe, once a sweep has seen it. */
  seen: ServerResponse | undefined
  seenAt: number
  /** Bytes that had arrived when a sweep first saw the response. */
  cameBefore: number
  /** Bytes received or sent when a sweep last saw a change, and the time of that change. */
  bytes: number
  movedAt: number
}

/** Longer than the timeout of common load balancers, so they are the ones to close idle connections. */
const KEEP_ALIVE_TIMEOUT_S = 65
/** The header value that announces the timeout to clients. */
export const KEEP_ALIVE = `timeout=${KEEP_ALIVE_TIMEOUT_S}`
/** One extra second for a request that was sent at the last moment. */
const IDLE_TIMEOUT_MS = (KEEP_ALIVE_TIMEOUT_S + 1) * 1_000
/** A body may be large and arrive slowly, but it must make progress. */
const BODY_IDLE_TIMEOUT_MS = 30_000
/** Responses must make progress too: a client that doesn't read ties up memory, and the file or model behind it. */
const RESPONSE_IDLE_TIMEOUT_MS = 120_000
/** After this time, a body must have averaged the minimum rate in bytes per millisecond. */
const SLOW_BODY_TIMEOUT_MS = 5 * 60_000
const MIN_BYTES_PER_MS = 1
/** A connection is closed at most two sweeps late. */
const SWEEP_INTERVAL_MS = 5_000

const FRESH: Connection = {
  response: undefined,
  idleSince: undefined,
  seen: undefined,
  seenAt: 0,
  cameBefore: 0,
  bytes: 0,
  movedAt: 0,
}

/** Timeouts for tests: when a connection counts as idle, or its body or response as stalled, and how often we sweep. */
export interface IdleLimits {
  idleMs?: number
  bodyIdleMs?: number
  answerIdleMs?: number
  slowMs?: number
  sweepMs?: number
}

const LIMITS: Required<IdleLimits> = {
  idleMs: IDLE_TIMEOUT_MS,
  bodyIdleMs: BODY_IDLE_TIMEOUT_MS,
  answerIdleMs: RESPONSE_IDLE_TIMEOUT_MS,
  slowMs: SLOW_BODY_TIMEOUT_MS,
  sweepMs: SWEEP_INTERVAL_MS,
}

/**
 * Closes connections of clients that have sent no request for a long time, have stalled within a body, or don't read
 * their response; these would otherwise stay open forever. Node's own limits set timers for every request, which costs
 * more than sweeping all connections at an interval.
 */
export class IdleConnections {
  readonly #limits: Required<IdleLimits>
  readonly #timeOut: (response: ServerResponse) => void
  readonly #open = new Map<Socket, Connection>()

  /** @param timeOut responds to a request whose body has stalled, and closes its connection. */
  constructor(server: Server, timeOut: (response: ServerResponse) => void, limits: IdleLimits = {}) {
    this.#limits = { ...LIMITS, ...limits }
    this.#timeOut = timeOut
    server.keepAliveTimeout = 0
    server.on('connection', (socket: Socket) => {
      this.#open.set(socket, { ...FRESH })
      socket.once('close', () => this.forget(socket))
    })
    server.once('listening', () => {
      const timer = setInterval(() => this.#sweep(performance.now()), this.#limits.sweepMs).unref()
      server.once('close', () => clearInterval(timer))
    })
  }

  /** Records a new request. */
  note(socket: Socket, response: ServerResponse): void {
    const connection = this.#open.get(socket)
    if (connection) connection.response = response
  }

  /** Closes connections that have not carried a request yet; clients open some in advance. */
  closeUnused(): void {
    for (const [socket, { response, idleSince }] of this.#open)
      if (!response && idleSince === undefined && socket.bytesRead === 0) socket.destroy()
  }

  /** Forgets a socket that has closed or no longer carries requests. */
  forget(socket: Socket): void {
    this.#open.delete(socket)
  }

  #sweep(now: number): void {
    for (const [socket, connection] of this.#open) {
      const { response, idleSince } = connection
      if (!response) {
        if (idleSince !== undefined && now - idleSince >= this.#limits.idleMs) socket.destroy()
      } else if (response.writableFinished || response.destroyed) {
        connection.response = undefined
        connection.idleSince = now
      } else if (!response.req.complete) this.#lookAtBody(socket, connection, response, now)
      // The body has arrived, so any delay is the handler's.
      else if (response.writableLength > 0) this.#lookAtAnswer(socket, connection, now)
      else connection.movedAt = now
    }
  }

  #lookAtBody(socket: Socket, connection: Connection, response: ServerResponse, now: number): void {
    const bytesRead = socket.bytesRead
    if (connection.seen !== response) {
      Object.assign(connection, { seen: response, seenAt: now, cameBefore: bytesRead, movedAt: now })
    }
    // If received bytes haven't been consumed, the client isn't the one delaying.
    if (connection.bytes !== bytesRead || response.req.readableLength > 0) {
      connection.bytes = bytesRead
      connection.movedAt = now
    }
    const { bodyIdleMs, slowMs } = this.#limits
    const slowest = slowMs + (bytesRead - connection.cameBefore) / MIN_BYTES_PER_MS
    if (now - connection.movedAt < bodyIdleMs && now - connection.seenAt < slowest) return
    if (response.headersSent) socket.destroy()
    else this.#timeOut(response)
  }

  #lookAtAnswer(socket: Socket, connection: Connection, now: number): void {
    // Bytes written, minus those that are still buffered here.
    const bytesSent = socket.bytesWritten - socket.writableLength
    if (connection.bytes !== bytesSent) {
      connection.bytes = bytesSent
      connection.movedAt = now
    } else if (now - connection.movedAt >= this.#limits.answerIdleMs) socket.destroy()
  }
}
