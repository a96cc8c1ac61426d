import type { WebSocket } from 'ws'
import { FRAME } from '../../schemas/nodes/link.ts'
import { type Frame, frameAt, frameLength } from './codec.ts'

/** The work that the peer may cause; a unit is about one chunk of a stream. */
export interface InboundRate {
  perSecond: number
  burst: number
}

/**
 * The units of work per frame, by type, in addition to its bytes. Chunks of streams are cheap and bounded by credit;
 * JSON must be parsed; a hello or a batch of log lines reaches the database.
 */
const UNITS: Readonly<Record<number, number>> = {
  [FRAME.chunk]: 1,
  [FRAME.head]: 4,
  [FRAME.end]: 4,
  [FRAME.error]: 20,
  [FRAME.ack]: 5,
  [FRAME.ping]: 20,
  [FRAME.state]: 100,
  [FRAME.progress]: 100,
  [FRAME.log]: 500,
  [FRAME.metric]: 500,
  [FRAME.hello]: 5_000,
}
const UNKNOWN_UNITS = 50
/** One unit per 64 bytes of JSON or of an unexpected body. */
const BYTES_SHIFT = 6
/** The units handled per turn of the event loop, before other sockets get their turn. */
const TURN_UNITS = 2_000
const MIN_DELAY_MS = 5

/**
 * @param isExpected true when something else bounds the body: its stream's credit, or the fact that it ends a stream.
 */
export function unitsOf({ type, meta, body }: Frame, isExpected: boolean): number {
  const bytes = meta.length + (isExpected ? 0 : body.length)
  return (UNITS[type] ?? UNKNOWN_UNITS) + (bytes >> BYTES_SHIFT)
}

export interface InboxEvents {
  /** Handles a frame and returns its units; may throw. */
  take: (frame: Frame) => number
  /** Called when the bytes are not valid frames, or `take` threw. */
  onFault: (err: unknown) => void
}

/**
 * Reads the frames of a socket, a bounded amount per turn of the event loop. If a sender causes more work than its pace
 * allows, the inbox stops reading from it until it is within its pace again, so it never delays another sender.
 */
export class LinkInbox {
  readonly #socket: WebSocket
  readonly #events: InboxEvents
  readonly #pace: InboundRate | undefined
  readonly #messages: Buffer[] = []
  /** The position of the next frame in the first message. */
  #at = 0
  #units: number
  #refilledAt = performance.now()
  #holds = 0
  /** The timer or immediate that continues with the waiting messages. */
  #next: { cancel: () => void } | undefined
  #isPaused = false
  #isDraining = false
  #closed = false

  constructor(socket: WebSocket, events: InboxEvents, pace?: InboundRate) {
    this.#socket = socket
    this.#events = events
    this.#pace = pace
    this.#units = pace?.burst ?? 0
  }

  /** True while the sender is not being read, so that its silence does not count. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  push(message: Buffer): void {
    if (this.#closed) return
    this.#messages.push(message)
    if (!this.#next && this.#holds === 0) this.#drain()
  }

  /** Stops reading from the sender until the returned function is called. */
  hold(): () => void {
    let isHeld = true
    this.#holds += 1
    this.#pause()
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#holds -= 1
      if (this.#holds === 0 && !this.#next && !this.#isDraining) this.#drain()
    }
  }

  /** Stops handling frames; the socket is still read, so that it can close. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#next?.cancel()
    this.#messages.length = 0
    this.#resume()
  }

  #drain(): void {
    this.#isDraining = true
    try {
      if (this.#takeSome()) this.#resume()
    } catch (err) {
      this.#events.onFault(err)
    } finally {
      this.#isDraining = false
    }
  }

  /** Handles waiting frames; returns true when none are left and more may arrive. */
  #takeSome(): boolean {
    let left = TURN_UNITS
    for (;;) {
      const message = this.#messages[0]
      if (this.#closed || this.#holds > 0) return false
      if (!message) return true
      const units = this.#events.take(this.#frameOf(message))
      left -= units
      if (this.#closed) return false
      if (this.#pace && (this.#units -= units) < 0 && !this.#refill(this.#pace)) {
        this.#wait(this.#pace)
        return false
      }
      if (left <= 0 && this.#messages.length > 0) {
        this.#yield()
        return false
      }
    }
  }

  #frameOf(message: Buffer): Frame {
    const frame = frameAt(message, this.#at)
    this.#at += frameLength(frame)
    if (this.#at >= message.length) {
      this.#messages.shift()
      this.#at = 0
    }
    return frame
  }

  #refill({ perSecond, burst }: InboundRate): boolean {
    const now = performance.now()
    this.#units = Math.min(burst, this.#units + ((now - this.#refilledAt) / 1_000) * perSecond)
    this.#refilledAt = now
    return this.#units >= 0
  }

  #wait({ perSecond }: InboundRate): void {
    this.#pause()
    const timer = setTimeout(() => this.#goOn(), Math.max(MIN_DELAY_MS, (-this.#units / perSecond) * 1_000))
    this.#next = { cancel: () => clearTimeout(timer) }
  }

  #yield(): void {
    this.#pause()
    const immediate = setImmediate(() => this.#goOn())
    this.#next = { cancel: () => clearImmediate(immediate) }
  }

  #goOn(): void {
    this.#next = undefined
    if (this.#holds === 0) this.#drain()
  }

  #pause(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    this.#socket.pause()
  }

  #resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#socket.resume()
  }
}
