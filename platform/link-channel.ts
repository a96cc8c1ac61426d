import type { RawData, WebSocket } from 'ws'
import { type AckMeta, FRAME, type FrameType, MAX_CHUNK, STREAM_CREDIT } from '../schemas/link.ts'
import {
  decodeFrames,
  encodeChunk,
  encodeFrame,
  type Frame,
  LinkProtocolError,
  parseMeta,
} from './link-codec.ts'
import { StreamTable } from './stream-table.ts'
import { TurnWriter } from './turn-writer.ts'

/** Bytes waiting in the socket above which data frames wait in their streams, so that control frames overtake them. */
const SOCKET_HIGH_WATER = 2 * MAX_CHUNK
const GRANT_STEP = STREAM_CREDIT / 2
/** Streams in line that are not worth a look whether they still matter. */
const FEW = 64

export interface ChannelOptions {
  onFrame: (frame: Frame) => void
  onClose: (reason: string) => void
  /** A stream whose reader granted nothing for `stallMs` while data waited. */
  onStall: (stream: number) => void
  pingMs?: number
  /** Silence after which the link counts as broken. */
  idleMs?: number
  stallMs?: number
}

interface Sending {
  readonly stream: number
  queue: Buffer[]
  queuedBytes: number
  credit: number
  /** The frame that closes the stream once the queue has gone. */
  last: Buffer | undefined
  waitingSince: number
  onDrain: (() => void) | undefined
  /** It is in the line of those that may have something to send. */
  inLine: boolean
}

interface Receiving {
  ungranted: number
  paused: boolean
}

/**
 * One end of a link: frames in and out of a WebSocket. Control frames go first; data frames go round robin over the
 * streams, each within its credit. What a stream is given in one turn of the event loop goes as one frame.
 */
export class LinkChannel {
  readonly #socket: WebSocket
  readonly #options: Required<ChannelOptions>
  readonly #sending = new StreamTable<Sending>()
  readonly #receiving = new StreamTable<Receiving>()
  /** Streams whose turn is to come. */
  readonly #line: Sending[] = []
  #isPumping = false
  readonly #timer: NodeJS.Timeout
  readonly #out: TurnWriter
  #lastIn = Date.now()
  #closed = false

  constructor(socket: WebSocket, options: ChannelOptions) {
    this.#socket = socket
    const pump = () => this.#pump()
    this.#out = new TurnWriter(socket, { onTurnOver: pump, onSent: pump })
    this.#options = { pingMs: 3_000, idleMs: 10_000, stallMs: 60_000, ...options }
    socket.binaryType = 'nodebuffer'
    socket.on('message', (data: RawData) => this.#receive(data as Buffer))
    socket.on('close', (code, reason) => this.#close(reason.toString() || `closed with ${code}`))
    socket.on('error', (err) => this.#close(err.message))
    this.#timer = setInterval(() => this.#tick(), Math.min(1_000, this.#options.pingMs))
    this.#timer.unref()
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Sends a control frame, past any data that waits. */
  send(type: FrameType, stream: number, meta?: string, body?: Uint8Array): void {
    if (this.#closed) return
    this.#out.put(encodeFrame(type, stream, meta, body))
  }

  /**
   * Queues bytes on a stream. False asks the producer to wait for `onDrain`;
   * what is written regardless is kept, so a producer that cannot pause is only slow, not lossy.
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

  /** Ends a stream with `end` after whatever is queued on it; at once when nothing is. */
  end(stream: number, meta?: string, body?: Uint8Array): void {
    const sending = this.#sending.get(stream)
    if (!sending) return this.send(FRAME.end, stream, meta, body)
    sending.last = encodeFrame(FRAME.end, stream, meta, body)
    this.#queueUp(sending)
    this.#out.begin()
  }

  /** Grants credit for what arrives on a stream from now on; without it a sender stops at `STREAM_CREDIT`. */
  expect(stream: number): void {
    this.#receiving.set(stream, { ungranted: 0, paused: false })
  }

  /** Drops what is queued on a stream and what is known of it. */
  forget(stream: number): void {
    const sending = this.#sending.get(stream)
    if (sending) this.#drop(sending)
    this.#receiving.delete(stream)
  }

  /** Stops or restarts the granting of credit to the sender of a stream. */
  setPaused(stream: number, paused: boolean): void {
    const receiving = this.#receiving.get(stream)
    if (!receiving) return
    receiving.paused = paused
    if (!paused) this.#grant(stream, receiving)
  }

  close(reason: string, code = 1000): void {
    if (this.#closed) return
    // What streams were given in this turn of the event loop goes out first.
    this.#pump()
    this.#out.flush()
    this.#socket.close(code, reason.slice(0, 120))
    this.#close(reason)
  }

  #stream(stream: number): Sending {
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

  #receive(message: Buffer): void {
    if (this.#closed) return
    this.#lastIn = Date.now()
    try {
      for (const frame of decodeFrames(message)) {
        this.#take(frame)
        if (this.#closed) return
      }
    } catch (err) {
      if (!(err instanceof LinkProtocolError)) throw err
      this.close(err.message, 1002)
    }
  }

  #take(frame: Frame): void {
    if (frame.type === FRAME.ping) return
    if (frame.type === FRAME.ack && frame.stream !== 0) return this.#credit(frame)
    if (frame.type === FRAME.chunk) this.#count(frame)
    this.#options.onFrame(frame)
  }

  #credit(frame: Frame): void {
    const sending = this.#sending.get(frame.stream)
    if (!sending) return
    const { credit = 0 } = parseMeta<AckMeta>(frame)
    if (!Number.isInteger(credit) || credit < 0) throw new LinkProtocolError('credit is no number of bytes')
    sending.credit += credit
    this.#queueUp(sending)
    this.#pump()
  }

  #count(frame: Frame): void {
    const receiving = this.#receiving.get(frame.stream)
    if (!receiving) return
    receiving.ungranted += frame.body.length
    if (!receiving.paused) this.#grant(frame.stream, receiving)
  }

  #grant(stream: number, receiving: Receiving): void {
    if (receiving.ungranted < GRANT_STEP) return
    this.send(FRAME.ack, stream, `{"credit":${receiving.ungranted}}`)
    receiving.ungranted = 0
  }

  /** It may stand in a line that does not move: nothing of what it held stays with it, and it does not stay long. */
  #drop(sending: Sending): void {
    this.#sending.delete(sending.stream)
    sending.queue = []
    sending.last = undefined
    sending.onDrain = undefined
    if (this.#isPumping || this.#line.length <= 2 * this.#sending.size + FEW) return
    const known = this.#line.filter((one) => this.#sending.get(one.stream) === one)
    this.#line.splice(0, Infinity, ...known)
  }

  #queueUp(sending: Sending): void {
    if (sending.inLine) return
    sending.inLine = true
    this.#line.push(sending)
  }

  /** One frame per stream in turn, until the socket is full or nothing may go. */
  #pump(): void {
    // What a producer writes when it is called back is reached by the loop that called it.
    if (this.#isPumping) return
    this.#isPumping = true
    const line = this.#line
    let at = 0
    try {
      while (at < line.length && !this.#closed && this.#out.waitingBytes <= SOCKET_HIGH_WATER) {
        const sending = line[at++]!
        sending.inLine = false
        if (this.#sending.get(sending.stream) === sending) this.#sendNext(sending)
      }
    } finally {
      line.splice(0, at)
      this.#isPumping = false
    }
  }

  #sendNext(sending: Sending): void {
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
      sending.waitingSince ||= Date.now()
      return
    }
    sending.waitingSince = 0
    sending.credit -= bytes
    sending.queuedBytes -= bytes
    this.#out.put(encodeChunk(stream, sending.queue.splice(0, count), bytes))
    // Its place in line does not hang on what its producer does now.
    this.#queueUp(sending)
    if (sending.onDrain && sending.queuedBytes <= MAX_CHUNK) {
      const drained = sending.onDrain
      sending.onDrain = undefined
      drained()
    }
  }

  #tick(): void {
    const now = Date.now()
    if (now - this.#lastIn > this.#options.idleMs) {
      this.#socket.terminate()
      return this.#close('the other side has gone silent')
    }
    if (now - this.#out.lastOut >= this.#options.pingMs) this.send(FRAME.ping, 0)
    for (const [stream, { waitingSince }] of this.#sending.entries()) {
      if (waitingSince && now - waitingSince > this.#options.stallMs) this.#options.onStall(stream)
    }
  }

  #close(reason: string): void {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#timer)
    this.#sending.clear()
    this.#receiving.clear()
    this.#line.length = 0
    this.#options.onClose(reason)
  }
}
