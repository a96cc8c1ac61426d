import type { RawData, WebSocket } from 'ws'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import {
  decodeAnswer,
  decodeFrame,
  encodeFrame,
  MAX_FRAME_BYTES,
  type SessionAnswer,
  type SessionFrame,
} from './session-frames.ts'

const WINDOW_BYTES = 4 * 1024 * 1024
/** The silence after which a connection counts as broken, and the time for which a session waits for the next one. */
const SILENCE_TIMEOUT_MS = 10_000
/** As long as a ticket may be used first. */
const BEGIN_MS = 60_000
const CLOSING_MS = 500
const NORMAL = 1000
const POLICY_VIOLATION = 1008

export interface SessionOptions {
  /** Takes a verified frame. The next one, and the answer, wait for it. */
  onFrame: (frame: SessionFrame) => Promise<void> | void
  /** The bytes that may be under way in each direction; one frame always may. */
  windowBytes?: number
  silentMs?: number
  /** The time for which it waits for the first connection. */
  beginMs?: number
}

/**
 * Frames in both directions over one connection at a time. A sender keeps a frame until its receiver has taken it, so a
 * new connection goes on behind the last acknowledged frame of each direction, and no frame is taken twice.
 */
export class EdgeSession {
  readonly #options: Required<SessionOptions>
  readonly #done = Promise.withResolvers<void>()
  readonly #timer: NodeJS.Timeout
  #socket: WebSocket | undefined
  #wasConnected = false
  #lastIn = performance.now()
  /** Frames that the other end has not taken. */
  #kept: { sequence: number; message: Buffer }[] = []
  #keptBytes = 0
  #sequence = 0
  #acknowledged = 0
  /** The last sequence that went over this connection; undefined until the other end has told what it has. */
  #sentThrough: number | undefined
  #credit = 0
  #hasSentLast = false
  #waiting: (() => void)[] = []
  #received = 0
  #taken = 0
  #untakenBytes = 0
  #hasTakenLast = false
  #taking: Promise<void> = Promise.resolve()
  #end: 'done' | EdgeError | undefined

  constructor({
    onFrame,
    windowBytes = WINDOW_BYTES,
    silentMs = SILENCE_TIMEOUT_MS,
    beginMs = BEGIN_MS,
  }: SessionOptions) {
    this.#options = { onFrame, windowBytes, silentMs, beginMs }
    this.#done.promise.catch(() => {})
    this.#timer = setInterval(() => this.#tick(), silentMs / 4)
  }

  /** Resolves when all frames of both directions were taken; rejects with an `EdgeError` otherwise. */
  get done(): Promise<void> {
    return this.#done.promise
  }

  get isOver(): boolean {
    return this.#end !== undefined
  }

  /** Goes on over this connection, in place of the one before. */
  attach(socket: WebSocket): void {
    if (this.#end instanceof EdgeError) return socket.terminate()
    this.#socket?.terminate()
    this.#socket = socket
    this.#sentThrough = undefined
    this.#wasConnected = true
    this.#lastIn = performance.now()
    const heard = () => (this.#lastIn = performance.now())
    socket.on('message', (data: RawData, isBinary) => {
      heard()
      if (this.#socket === socket) this.#hear(data as Buffer, isBinary)
    })
    socket.on('ping', heard)
    socket.on('pong', heard)
    socket.on('error', () => socket.terminate())
    socket.on('close', (code, reason) => {
      if (this.#socket !== socket) return
      this.#socket = undefined
      if (code === POLICY_VIOLATION)
        this.destroy(new EdgeError('refused', `the other end has ended it: ${reason.toString()}`))
    })
    this.#answer()
    if (this.#end) socket.close(NORMAL)
  }

  /** Sends bytes as one frame, and resolves when there is room for another. The last frame may be empty. */
  async send(bytes: Buffer, { isLast = false }: { isLast?: boolean } = {}): Promise<void> {
    if (bytes.length > MAX_FRAME_BYTES)
      throw new EdgeError('size_mismatch', `a frame holds at most ${MAX_FRAME_BYTES} bytes`)
    this.#refuseIfFailed()
    if (this.#hasSentLast) throw new EdgeError('refused', 'this direction has ended')
    this.#hasSentLast = isLast
    this.#sequence += 1
    const message = encodeFrame({ sequence: this.#sequence, bytes, isLast })
    this.#kept.push({ sequence: this.#sequence, message })
    this.#keptBytes += message.length
    this.#pump()
    while (this.#keptBytes >= this.#options.windowBytes && !this.isOver)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#refuseIfFailed()
  }

  /** Ends it at once; what was not taken is lost. */
  destroy(why: EdgeError = new EdgeError('cancelled', 'the session was ended')): void {
    if (this.#end) return
    this.#finish(why)
    const socket = this.#socket
    if (!socket) return
    // The other end is told, unless it does not listen.
    socket.close(POLICY_VIOLATION, why.failure)
    setTimeout(() => socket.terminate(), CLOSING_MS).unref()
  }

  #refuseIfFailed(): void {
    if (this.#end instanceof EdgeError) throw this.#end
  }

  #hear(data: Buffer, isBinary: boolean): void {
    try {
      if (isBinary) this.#receive(decodeFrame(data))
      else this.#answered(decodeAnswer(data.toString()))
    } catch (err) {
      this.destroy(err as EdgeError)
    }
  }

  #receive(frame: SessionFrame): void {
    // A frame that was under way when the connection broke may come again.
    if (frame.sequence <= this.#received) return
    if (frame.sequence !== this.#received + 1)
      throw new EdgeError('refused', `frame ${frame.sequence} came after frame ${this.#received}`)
    this.#received = frame.sequence
    this.#untakenBytes += frame.bytes.length
    if (this.#untakenBytes > this.#options.windowBytes + MAX_FRAME_BYTES)
      throw new EdgeError('refused', 'more frames came than were granted')
    this.#taking = this.#taking.then(() => this.#take(frame))
  }

  async #take(frame: SessionFrame): Promise<void> {
    if (this.#end) return
    try {
      if (this.#hasTakenLast) throw new EdgeError('refused', 'a frame came after the last one')
      await this.#options.onFrame(frame)
    } catch (err) {
      return this.destroy(
        err instanceof EdgeError ? err : new EdgeError('refused', String(err), { cause: err }),
      )
    }
    this.#taken = frame.sequence
    this.#untakenBytes -= frame.bytes.length
    this.#hasTakenLast = frame.isLast
    this.#answer()
    this.#finishIfDone()
  }

  #answer(): void {
    const answer: SessionAnswer = { ack: this.#taken, credit: this.#options.windowBytes }
    this.#socket?.send(JSON.stringify(answer), () => {})
  }

  #answered({ ack, credit }: SessionAnswer): void {
    if (ack > this.#sequence || ack < this.#acknowledged)
      throw new EdgeError('refused', `frame ${ack} cannot be the last one that was taken`)
    this.#acknowledged = ack
    while (this.#kept[0] && this.#kept[0].sequence <= ack)
      this.#keptBytes -= this.#kept.shift()!.message.length
    this.#credit = credit
    this.#sentThrough ??= ack
    this.#pump()
    for (const wake of this.#waiting.splice(0)) wake()
    this.#finishIfDone()
  }

  /** Sends what the other end has room for. */
  #pump(): void {
    if (this.#sentThrough === undefined || !this.#socket) return
    let underWay = 0
    for (const { sequence, message } of this.#kept) {
      if (sequence > this.#sentThrough) {
        if (underWay > 0 && underWay + message.length > this.#credit) return
        this.#socket.send(message, () => {})
        this.#sentThrough = sequence
      }
      underWay += message.length
    }
  }

  #finishIfDone(): void {
    if (this.#end || !this.#hasSentLast || !this.#hasTakenLast || this.#kept.length > 0) return
    this.#finish('done')
    // The answer to the other end's last frame goes first.
    this.#socket?.close(NORMAL)
  }

  #finish(end: 'done' | EdgeError): void {
    this.#end = end
    clearInterval(this.#timer)
    this.#kept = []
    if (end === 'done') this.#done.resolve()
    else this.#done.reject(end)
    for (const wake of this.#waiting.splice(0)) wake()
  }

  #tick(): void {
    const { silentMs, beginMs } = this.#options
    const silence = performance.now() - this.#lastIn
    if (!this.#wasConnected) {
      if (silence > beginMs) this.destroy(new EdgeError('unreachable', `nobody connected for ${beginMs} ms`))
    } else if (silence > silentMs) {
      if (!this.#socket) return this.destroy(new EdgeError('stalled', `no connection for ${silentMs} ms`))
      this.#socket.terminate()
      this.#socket = undefined
      this.#lastIn = performance.now()
    }
    this.#socket?.ping(undefined, undefined, () => {})
  }
}
