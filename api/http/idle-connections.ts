import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
  /** The latest request, until a sweep has seen that it is finished. */
  response: ServerResponse | undefined
  /** The time since which no request is in progress, by `performance.now()`; unset before the first request. */
  idleSince: number | undefined
  /** The response that the following fields describe, once a sweep has seen it. */
  seen: ServerResponse | undefined
  seenAt: number
  /** Bytes that had arrived when the sweep first saw it. */
  cameBefore: number
  /** The number of bytes that had arrived or been sent when a sweep last saw a change, and the time of that change. */
  bytes: number
  movedAt: number
}

/** Longer than the timeout of usual load balancers, so that they are the ones to close idle connections. */
const KEEP_ALIVE_S = 65
/** Announces the timeout to clients. */
export const KEEP_ALIVE = `timeout=${KEEP_ALIVE_S}`
/** The extra second is for a request that was sent at the last moment. */
const IDLE_TIMEOUT_MS = (KEEP_ALIVE_S + 1) * 1_000
/** A body may be large and arrive slowly, but it must make progress. */
const BODY_IDLE_TIMEOUT_MS = 30_000
/** A response must make progress too: a client that reads nothing holds its memory, and the file or the model behind it. */
const RESPONSE_IDLE_TIMEOUT_MS = 120_000
/** The time after which a body's rate counts, and the bytes per millisecond that it must have averaged by then. */
const SLOW_MS = 5 * 60_000
const SLOWEST_BYTES_PER_MS = 1
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

/**
 * For tests: the times after which a connection counts as idle, its body or its response as stalled, and
 * the interval of the sweeps.
 */
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
  slowMs: SLOW_MS,
  sweepMs: SWEEP_INTERVAL_MS,
}

/**
 * Closes connections of clients that have long sent no request, have stalled in the middle of a body, or do not read
 * their response, because such connections would stay open without end. The server's own limits set timers for every
 * request; this class sweeps all connections at an interval.
 */
export class IdleConnections {
  readonly #limits: Required<IdleLimits>
  readonly #timeOut: (response: ServerResponse) => void
  readonly #open = new Map<Socket, Connection>()

  /** @param timeOut responds to a request whose body has stalled, and ends its connection. */
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

  /** Closes connections on which no request has come yet: clients open some in advance. */
  closeUnused(): void {
    for (const [socket, { response, idleSince }] of this.#open)
      if (!response && idleSince === undefined && socket.bytesRead === 0) socket.destroy()
  }

  /** Drops a socket that has closed, or no longer carries requests. */
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
      // The body has arrived, so any delay is that of the handler.
      else if (response.writableLength > 0) this.#lookAtAnswer(socket, connection, now)
      else connection.movedAt = now
    }
  }

  #lookAtBody(socket: Socket, connection: Connection, response: ServerResponse, now: number): void {
    const came = socket.bytesRead
    if (connection.seen !== response) {
      Object.assign(connection, { seen: response, seenAt: now, cameBefore: came, movedAt: now })
    }
    // Bytes that have arrived and have not been consumed are not the client's delay.
    if (connection.bytes !== came || response.req.readableLength > 0) {
      connection.bytes = came
      connection.movedAt = now
    }
    const { bodyIdleMs, slowMs } = this.#limits
    const slowest = slowMs + (came - connection.cameBefore) / SLOWEST_BYTES_PER_MS
    if (now - connection.movedAt < bodyIdleMs && now - connection.seenAt < slowest) return
    if (response.headersSent) socket.destroy()
    else this.#timeOut(response)
  }

  #lookAtAnswer(socket: Socket, connection: Connection, now: number): void {
    // The bytes written, less those that still wait here for the client.
    const gone = socket.bytesWritten - socket.writableLength
    if (connection.bytes !== gone) {
      connection.bytes = gone
      connection.movedAt = now
    } else if (now - connection.movedAt >= this.#limits.answerIdleMs) socket.destroy()
  }
}
