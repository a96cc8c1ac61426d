import type { WebSocket } from 'ws'
import { FRAME } from '../../schemas/link.ts'
import { type Frame, frameAt, frameLength } from './codec.ts'

/** The work that the other side of a link may cause, in units of about a chunk of a stream. */
export interface InboundPace {
  perSecond: number
  burst: number
}

/**
 * Units that a frame of each type takes beside its bytes: chunks of streams are bounded by credit and cheap, whatever is JSON
 * has to be parsed, and a hello or a batch of lines reaches the database.
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
/** A unit for each 64 bytes that nobody granted credit for. */
const BYTES_SHIFT = 6
/** Units of one turn of the event loop; then other sockets have theirs. */
const TURN_UNITS = 2_000
const SHORTEST_WAIT_MS = 5

/** @param isGranted the bytes of the frame are bounded by the credit of their stream. */
export function unitsOf({ type, meta, body }: Frame, isGranted: boolean): number {
  const units = UNITS[type] ?? UNKNOWN_UNITS
  return isGranted ? units : units + ((meta.length + body.length) >> BYTES_SHIFT)
}

export interface InboxEvents {
  /** Takes a frame and says how many units it was worth; may throw. */
  take: (frame: Frame) => number
  /** The bytes are no frames, or `take` threw. */
  onFault: (err: unknown) => void
}

/**
 * What comes in over a socket, frame by frame and a bounded amount per turn of the event loop. A sender that causes more work
 * than its pace allows is not read until it is within it again: it waits, and nobody else does.
 */
export class LinkInbox {
  readonly #socket: WebSocket
  readonly #events: InboxEvents
  readonly #pace: InboundPace | undefined
  readonly #messages: Buffer[] = []
  /** Where in the first message the next frame begins. */
  #at = 0
  #units: number
  #refilledAt = performance.now()
  #holds = 0
  /** A timer or an immediate goes on with what waits. */
  #next: { cancel: () => void } | undefined
  #isPaused = false
  #isDraining = false
  #closed = false

  constructor(socket: WebSocket, events: InboxEvents, pace?: InboundPace) {
    this.#socket = socket
    this.#events = events
    this.#pace = pace
    this.#units = pace?.burst ?? 0
  }

  /** The sender is not being read, so its silence says nothing. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  push(message: Buffer): void {
    if (this.#closed) return
    this.#messages.push(message)
    if (!this.#next && this.#holds === 0) this.#drain()
  }

  /** Reads nothing more from the sender until what comes back is called. */
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

  /** Takes nothing more; the socket is read on, so that it can end. */
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

  /** True when nothing waits and more may come. */
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

  #refill({ perSecond, burst }: InboundPace): boolean {
    const now = performance.now()
    this.#units = Math.min(burst, this.#units + ((now - this.#refilledAt) / 1_000) * perSecond)
    this.#refilledAt = now
    return this.#units >= 0
  }

  #wait({ perSecond }: InboundPace): void {
    this.#pause()
    const timer = setTimeout(
      () => this.#goOn(),
      Math.max(SHORTEST_WAIT_MS, (-this.#units / perSecond) * 1_000),
    )
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
