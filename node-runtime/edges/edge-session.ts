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
/** How long a connection may be silent before it counts as broken, and how long a session waits for a new one. */
const SILENCE_TIMEOUT_MS = 10_000
/** Equal to the time within which a ticket must first be used. */
const BEGIN_TIMEOUT_MS = 60_000
const CLOSE_TIMEOUT_MS = 500
const NORMAL = 1000
const POLICY_VIOLATION = 1008

export interface SessionOptions {
  /** Handles a verified frame. The next frame and the acknowledgement wait for it. */
  onFrame: (frame: SessionFrame) => Promise<void> | void
  /** The limit on bytes in flight in each direction; one frame is always allowed. */
  windowBytes?: number
  silentMs?: number
  /** How long the session waits for its first connection. */
  beginMs?: number
}

/**
 * Exchanges frames in both directions over one connection at a time. A sender keeps each frame until it is
 * acknowledged, so a new connection resumes after the last acknowledged frame of each direction. No frame is processed
 * twice.
 */
export class EdgeSession {
  readonly #options: Required<SessionOptions>
  readonly #done = Promise.withResolvers<void>()
  readonly #timer: NodeJS.Timeout
  #socket: WebSocket | undefined
  #wasConnected = false
  #lastIn = performance.now()
  /** Frames that the peer has not acknowledged. */
  #kept: { sequence: number; message: Buffer }[] = []
  #keptBytes = 0
  #sequence = 0
  #acknowledged = 0
  /** The last sequence sent over this connection; undefined until the peer's first acknowledgement. */
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
    beginMs = BEGIN_TIMEOUT_MS,
  }: SessionOptions) {
    this.#options = { onFrame, windowBytes, silentMs, beginMs }
    this.#done.promise.catch(() => {})
    this.#timer = setInterval(() => this.#tick(), silentMs / 4)
  }

  /** Resolves when all frames in both directions are acknowledged; rejects with an `EdgeError` otherwise. */
  get done(): Promise<void> {
    return this.#done.promise
  }

  get isOver(): boolean {
    return this.#end !== undefined
  }

  /** Continues over this connection and drops the previous one. */
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
        this.destroy(new EdgeError('refused', `the peer ended the session: ${reason.toString()}`))
    })
    this.#answer()
    if (this.#end) socket.close(NORMAL)
  }

  /** Sends bytes as one frame and resolves when the window has room for another. The last frame may be empty. */
  async send(bytes: Buffer, { isLast = false }: { isLast?: boolean } = {}): Promise<void> {
    if (bytes.length > MAX_FRAME_BYTES)
      throw new EdgeError('size_mismatch', `a frame can have at most ${MAX_FRAME_BYTES} bytes`)
    this.#refuseIfFailed()
    if (this.#hasSentLast) throw new EdgeError('refused', 'the last frame has already been sent')
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

  /** Ends the session at once. Unacknowledged frames are lost. */
  destroy(why: EdgeError = new EdgeError('cancelled', 'the session was ended')): void {
    if (this.#end) return
    this.#finish(why)
    const socket = this.#socket
    if (!socket) return
    // Give the peer a moment to receive the reason.
    socket.close(POLICY_VIOLATION, why.failure)
    setTimeout(() => socket.terminate(), CLOSE_TIMEOUT_MS).unref()
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
    // A frame that was in flight when the connection broke may arrive again.
    if (frame.sequence <= this.#received) return
    if (frame.sequence !== this.#received + 1)
      throw new EdgeError('refused', `frame ${frame.sequence} came after frame ${this.#received}`)
    this.#received = frame.sequence
    this.#untakenBytes += frame.bytes.length
    if (this.#untakenBytes > this.#options.windowBytes + MAX_FRAME_BYTES)
      throw new EdgeError('refused', 'the peer sent more frames than its credit allows')
    this.#taking = this.#taking.then(() => this.#take(frame))
  }

  async #take(frame: SessionFrame): Promise<void> {
    if (this.#end) return
    try {
      if (this.#hasTakenLast) throw new EdgeError('refused', 'a frame followed the last frame')
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
      throw new EdgeError('refused', `frame ${ack} cannot be the last acknowledged frame`)
    this.#acknowledged = ack
    for (let first = this.#kept[0]; first && first.sequence <= ack; first = this.#kept[0]) {
      this.#keptBytes -= first.message.length
      this.#kept.shift()
    }
    this.#credit = credit
    this.#sentThrough ??= ack
    this.#pump()
    for (const wake of this.#waiting.splice(0)) wake()
    this.#finishIfDone()
  }

  /** Sends as many frames as the peer's credit allows. */
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
    // The acknowledgement of the peer's last frame has been queued before this close.
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
      if (silence > beginMs)
        this.destroy(new EdgeError('unreachable', `no peer connected within ${beginMs} ms`))
    } else if (silence > silentMs) {
      if (!this.#socket) return this.destroy(new EdgeError('stalled', `no connection for ${silentMs} ms`))
      this.#socket.terminate()
      this.#socket = undefined
      this.#lastIn = performance.now()
    }
    this.#socket?.ping(undefined, undefined, () => {})
  }
}
