import type { RawData, WebSocket } from 'ws'
import { type AckMeta, FRAME, type FrameType, MAX_CHUNK, STREAM_CREDIT } from '../../schemas/nodes/link.ts'
import { compact, encodeChunk, encodeFrame, type Frame, LinkProtocolError, parseMeta } from './codec.ts'
import { type InboundRate, LinkInbox, unitsOf } from './inbox.ts'
import { StreamTable } from './stream-table.ts'
import { TurnWriter } from './turn-writer.ts'

/** Above this many bytes in the socket, data frames wait in their streams, so that control frames can overtake them. */
const SOCKET_HIGH_WATER = 2 * MAX_CHUNK
const GRANT_STEP = STREAM_CREDIT / 2
/** Above this many bytes waiting on our side, the peer counts as not reading. */
const MAX_UNREAD = 64 * 1024 * 1024
/** The time that the peer has to confirm the close. */
const CLOSE_TIMEOUT_MS = 2_000
const LAST_TYPE = Math.max(...Object.values(FRAME))
const TOO_LONG = `a frame of a stream has more than ${MAX_CHUNK} bytes`
/** With fewer queued streams than this, we don't search for dropped ones. */
const MIN_SEARCHED = 64

export interface ChannelOptions {
  onFrame: (frame: Frame) => void
  onClose: (reason: string) => void
  /** Called for a stream whose reader granted no credit for `stallMs` while data was waiting. */
  onStall: (stream: number) => void
  /** Called when a frame of an unknown type was ignored. */
  onUnknown?: (type: number) => void
  /** Limits the work that the peer may cause; unlimited when absent. */
  pace?: InboundRate
  pingMs?: number
  /** The silence after which the link counts as broken. */
  idleMs?: number
  stallMs?: number
}

interface SendState {
  readonly stream: number
  queue: Buffer[]
  queuedBytes: number
  credit: number
  /** The frame that closes the stream once its queue is empty. */
  last: Buffer | undefined
  waitingSince: number
  onDrain: (() => void) | undefined
  /** True while the stream is in the queue of those that may have data to send. */
  inLine: boolean
}

interface ReceiveState {
  /** Bytes received since credit was last granted, at most `STREAM_CREDIT`. */
  ungranted: number
  paused: boolean
}

/**
 * One end of a link, which sends and receives frames over a WebSocket. Control frames go first; data frames are sent
 * round-robin across the streams, each within its credit. The bytes written to a stream in one turn of the event loop
 * form one frame.
 */
export class LinkChannel {
  readonly #socket: WebSocket
  readonly #options: Required<Omit<ChannelOptions, 'pace'>>
  readonly #sending = new StreamTable<SendState>()
  readonly #receiving = new StreamTable<ReceiveState>()
  /** The queue of streams that are waiting for their turn. */
  readonly #line: SendState[] = []
  #isPumping = false
  readonly #timer: NodeJS.Timeout
  readonly #out: TurnWriter
  readonly #inbox: LinkInbox
  #lastIn = performance.now()
  /** The time at which the peer last accepted waiting bytes. */
  #lastTaken = performance.now()
  #closed = false

  constructor(socket: WebSocket, { pace, ...options }: ChannelOptions) {
    this.#socket = socket
    const onTurnOver = () => this.#pump()
    const onSent = () => {
      this.#lastTaken = performance.now()
      this.#pump()
    }
    this.#out = new TurnWriter(socket, { onTurnOver, onSent })
    this.#options = { pingMs: 3_000, idleMs: 10_000, stallMs: 60_000, onUnknown: () => {}, ...options }
    const take = (frame: Frame) => this.#take(frame)
    this.#inbox = new LinkInbox(socket, { take, onFault: (err) => this.#fault(err) }, pace)
    socket.binaryType = 'nodebuffer'
    socket.on('message', (data: RawData) => {
      this.#lastIn = performance.now()
      this.#inbox.push(data as Buffer)
    })
    socket.on('close', (code, reason) => this.#close(reason.toString() || `closed with ${code}`))
    socket.on('error', (err) => this.#close(err.message))
    this.#timer = setInterval(() => this.#tick(), Math.min(1_000, this.#options.pingMs))
    this.#timer.unref()
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Sends a control frame ahead of waiting data. */
  send(type: FrameType, stream: number, meta?: string, body?: Uint8Array): void {
    if (this.#closed) return
    this.#out.put(encodeFrame(type, stream, meta, body))
  }

  /**
   * Queues bytes on a stream. False means that the producer must wait for `onDrain`. Bytes written anyway are queued
   * too, so a producer that cannot pause loses nothing.
   */
  write(stream: number, bytes: Buffer, onDrain?: () => void): boolean {
    if (this.#closed) return true
    const sending = this.#stream(stream)
    for (let at = 0; at < bytes.length; at += MAX_CHUNK)
      sending.queue.push(bytes.subarray(at, at + MAX_CHUNK))
    sending.queuedBytes += bytes.length
    this.#queueUp(sending)
    if (sending.queuedBytes >= MAX_CHUNK) this.#pump()
    else this.#out.begin()
    if (sending.queuedBytes <= MAX_CHUNK) return true
    sending.onDrain = onDrain
    return false
  }

  /** Sends `end` for a stream after all queued bytes, or immediately if there are none. */
  end(stream: number, meta?: string, body?: Uint8Array): void {
    const sending = this.#sending.get(stream)
    if (!sending) return this.send(FRAME.end, stream, meta, body)
    sending.last = encodeFrame(FRAME.end, stream, meta, body)
    this.#queueUp(sending)
    this.#out.begin()
  }

  /** Starts granting credit for data that arrives on a stream; without credit, a sender stops at `STREAM_CREDIT`. */
  expect(stream: number): void {
    this.#receiving.set(stream, { ungranted: 0, paused: false })
  }

  /** Drops the queue and the state of a stream. */
  forget(stream: number): void {
    const sending = this.#sending.get(stream)
    if (sending) this.#drop(sending)
    this.#receiving.delete(stream)
  }

  /** Stops or resumes granting credit to a stream's sender. */
  setPaused(stream: number, paused: boolean): void {
    const receiving = this.#receiving.get(stream)
    if (!receiving) return
    receiving.paused = paused
    if (!paused) this.#grant(stream, receiving)
  }

  /** Stops reading from the peer until the returned function is called. */
  hold(): () => void {
    return this.#inbox.hold()
  }

  close(reason: string, code = 1000): void {
    if (this.#closed) return
    // Send this turn's data before the close.
    this.#pump()
    this.#out.flush()
    this.#socket.close(code, reason.slice(0, 120))
    setTimeout(() => this.#socket.terminate(), CLOSE_TIMEOUT_MS).unref()
    this.#close(reason)
  }

  #stream(stream: number): SendState {
    let sending = this.#sending.get(stream)
    if (!sending) {
      sending = {
        stream,
        queue: [],
        queuedBytes: 0,
        credit: STREAM_CREDIT,
        last: undefined,
        waitingSince: 0,
        onDrain: undefined,
        inLine: false,
      }
      this.#sending.set(stream, sending)
    }
    return sending
  }

  #fault(err: unknown): void {
    if (!(err instanceof LinkProtocolError)) throw err
    this.close(err.message, 1002)
  }

  /** Handles a frame and returns the units of work that it costs. */
  #take(frame: Frame): number {
    const { type } = frame
    if (type === FRAME.chunk) return this.#takeChunk(frame)
    // An expected stream ends only once, so the size of its `end` is bounded just as its chunks are.
    const units = unitsOf(frame, type === FRAME.end && this.#receiving.get(frame.stream) !== undefined)
    if (type > LAST_TYPE) this.#options.onUnknown(type)
    else if (type === FRAME.ack && frame.stream !== 0) this.#credit(frame)
    else if (type !== FRAME.ping) {
      if (type === FRAME.end && frame.body.length > MAX_CHUNK) throw new LinkProtocolError(TOO_LONG)
      this.#options.onFrame(frame)
    }
    return units
  }

  /** Handles a chunk; ignores it if it is empty, or if its stream ended while it was in flight. */
  #takeChunk(frame: Frame): number {
    const { length } = frame.body
    if (length > MAX_CHUNK) throw new LinkProtocolError(TOO_LONG)
    const receiving = this.#receiving.get(frame.stream)
    const units = unitsOf(frame, receiving !== undefined)
    if (receiving) this.#count(frame, receiving)
    frame.body = compact(frame.body)
    if (length > 0) this.#options.onFrame(frame)
    return units
  }

  #count({ stream, body }: Frame, receiving: ReceiveState): void {
    receiving.ungranted += body.length
    if (receiving.ungranted > STREAM_CREDIT) {
      throw new LinkProtocolError('a stream exceeded its granted credit')
    }
    if (!receiving.paused) this.#grant(stream, receiving)
  }

  #credit(frame: Frame): void {
    const sending = this.#sending.get(frame.stream)
    if (!sending) return
    const { credit = 0 } = parseMeta<AckMeta>(frame)
    if (!Number.isInteger(credit) || credit < 0)
      throw new LinkProtocolError('credit is not a number of bytes')
    sending.credit += credit
    this.#queueUp(sending)
    this.#pump()
  }

  #grant(stream: number, receiving: ReceiveState): void {
    if (receiving.ungranted < GRANT_STEP) return
    this.send(FRAME.ack, stream, `{"credit":${receiving.ungranted}}`)
    receiving.ungranted = 0
  }

  /** Releases a stream's buffers now, because its entry may remain in a stuck queue for a while. */
  #drop(sending: SendState): void {
    this.#sending.delete(sending.stream)
    sending.queue = []
    sending.last = undefined
    sending.onDrain = undefined
    if (this.#isPumping || this.#line.length <= 2 * this.#sending.size + MIN_SEARCHED) return
    const known = this.#line.filter((one) => this.#sending.get(one.stream) === one)
    this.#line.splice(0, Infinity, ...known)
  }

  #queueUp(sending: SendState): void {
    if (sending.inLine) return
    sending.inLine = true
    this.#line.push(sending)
  }

  /** Sends one frame per stream, round robin, until the socket is full or no stream may send. */
  #pump(): void {
    // If a producer writes in its callback, the loop that called it sends the bytes.
    if (this.#isPumping) return
    this.#isPumping = true
    const line = this.#line
    let at = 0
    try {
      while (!this.#closed && this.#out.waitingBytes <= SOCKET_HIGH_WATER) {
        const sending = line[at]
        if (!sending) break
        at += 1
        sending.inLine = false
        if (this.#sending.get(sending.stream) === sending) this.#sendNext(sending)
      }
    } finally {
      line.splice(0, at)
      this.#isPumping = false
    }
  }

  #sendNext(sending: SendState): void {
    const { stream } = sending
    if (sending.queue.length === 0) {
      if (!sending.last) return
      this.#sending.delete(stream)
      this.#out.put(sending.last)
      return
    }
    const most = Math.min(MAX_CHUNK, sending.credit)
    let count = 0
    let bytes = 0
    for (const { length } of sending.queue) {
      if (bytes + length > most) break
      bytes += length
      count += 1
    }
    if (count === 0) {
      sending.waitingSince ||= performance.now()
      return
    }
    sending.waitingSince = 0
    sending.credit -= bytes
    sending.queuedBytes -= bytes
    this.#out.put(encodeChunk(stream, sending.queue.splice(0, count), bytes))
    // Queue the stream again before calling its producer, so that its place does not depend on the producer.
    this.#queueUp(sending)
    if (sending.onDrain && sending.queuedBytes <= MAX_CHUNK) {
      const drained = sending.onDrain
      sending.onDrain = undefined
      drained()
    }
  }

  #tick(): void {
    const now = performance.now()
    const { waitingBytes } = this.#out
    if (this.#inbox.isPaused) this.#lastIn = now
    if (waitingBytes === 0) this.#lastTaken = now
    if (now - this.#lastIn > this.#options.idleMs) return this.#break('the other side has gone silent')
    if (waitingBytes > MAX_UNREAD || now - this.#lastTaken > this.#options.stallMs) {
      return this.#break('the other side is not reading')
    }
    if (now - this.#out.lastOut >= this.#options.pingMs) this.send(FRAME.ping, 0)
    for (const [stream, { waitingSince }] of this.#sending.entries()) {
      if (waitingSince && now - waitingSince > this.#options.stallMs) this.#options.onStall(stream)
    }
  }

  #break(reason: string): void {
    this.#socket.terminate()
    this.#close(reason)
  }

  #close(reason: string): void {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#timer)
    this.#inbox.close()
    this.#sending.clear()
    this.#receiving.clear()
    this.#line.length = 0
    this.#options.onClose(reason)
  }
}
