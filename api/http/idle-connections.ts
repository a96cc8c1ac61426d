import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
  /** Of the latest request, until a sweep has seen that it is finished. */
  response: ServerResponse | undefined
  /** Since when nothing is asked, by `performance.now()`; unset before the first request. */
  idleSince: number | undefined
  /** The response that the rest is about, once a sweep has seen it. */
  seen: ServerResponse | undefined
  seenAt: number
  /** Bytes that had come when it was seen. */
  cameBefore: number
  /** Bytes that had come or gone when a sweep last saw something new, and when that was. */
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
const BODY_IDLE_MS = 30_000
/** So has an answer: whoever reads nothing holds what it would read, and the file or the model that it comes from. */
const ANSWER_IDLE_MS = 120_000
/** Until a body may be called slow, and how many bytes of it a millisecond must have brought by then. */
const SLOW_MS = 5 * 60_000
const SLOWEST_BYTES_PER_MS = 1
/** A connection is closed at most two of these late. */
const SWEEP_MS = 5_000

const FRESH: Connection = {
  response: undefined,
  idleSince: undefined,
  seen: undefined,
  seenAt: 0,
  cameBefore: 0,
  bytes: 0,
  movedAt: 0,
}

/** For tests: how long a connection may stay idle, send nothing in the middle of a body, or read nothing of an answer, and how often all are looked at. */
export interface IdleLimits {
  idleMs?: number
  bodyIdleMs?: number
  answerIdleMs?: number
  slowMs?: number
  sweepMs?: number
}

const LIMITS: Required<IdleLimits> = {
  idleMs: IDLE_MS,
  bodyIdleMs: BODY_IDLE_MS,
  answerIdleMs: ANSWER_IDLE_MS,
  slowMs: SLOW_MS,
  sweepMs: SWEEP_MS,
}

/**
 * Closes connections on which a client has long asked nothing more, has stopped in the middle of a body, or reads nothing of
 * its answer: it would hold them, and what they carry, for ever. The server's own limits set timers for every request; this looks at all connections
 * now and then.
 */
export class IdleConnections {
  readonly #limits: Required<IdleLimits>
  readonly #timeOut: (response: ServerResponse) => void
  readonly #open = new Map<Socket, Connection>()

  /** @param timeOut answers a request whose body has stopped coming, and ends its connection. */
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
      const { response, idleSince } = connection
      if (!response) {
        if (idleSince !== undefined && now - idleSince >= this.#limits.idleMs) socket.destroy()
      } else if (response.writableFinished || response.destroyed) {
        connection.response = undefined
        connection.idleSince = now
      } else if (!response.req.complete) this.#lookAtBody(socket, connection, response, now)
      // Its body is here: the work that follows may take its time.
      else if (response.writableLength > 0) this.#lookAtAnswer(socket, connection, now)
      else connection.movedAt = now
    }
  }

  #lookAtBody(socket: Socket, connection: Connection, response: ServerResponse, now: number): void {
    const came = socket.bytesRead
    if (connection.seen !== response) {
      Object.assign(connection, { seen: response, seenAt: now, cameBefore: came, movedAt: now })
    }
    // What has come and is not taken yet is not the client's delay.
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
    // Written, less what still waits here for the client to read on.
    const gone = socket.bytesWritten - socket.writableLength
    if (connection.bytes !== gone) {
      connection.bytes = gone
      connection.movedAt = now
    } else if (now - connection.movedAt >= this.#limits.answerIdleMs) socket.destroy()
  }
}
