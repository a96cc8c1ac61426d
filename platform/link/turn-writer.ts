import type { WebSocket } from 'ws'
import { MAX_CHUNK } from '../../schemas/link.ts'

export interface TurnEvents {
  /** The turn of the event loop is over: what is put now still goes with its frames. */
  onTurnOver: () => void
  /** A message has left for the network. */
  onSent: () => void
}

/**
 * Sends the frames of one turn of the event loop as one message, or a few where they are large: with small frames, messages
 * and writes cost more than everything else.
 */
export class TurnWriter {
  readonly #socket: WebSocket
  readonly #events: TurnEvents
  readonly #endTurn = () => this.#turnOver()
  #frames: Buffer[] = []
  #frameBytes = 0
  #inTurn = false
  #lastOut = performance.now()

  constructor(socket: WebSocket, events: TurnEvents) {
    this.#socket = socket
    this.#events = events
  }

  /** Bytes on this side of the network. */
  get waitingBytes(): number {
    return this.#frameBytes + this.#socket.bufferedAmount
  }

  /** When something was last sent, by the monotonic clock of this process, in milliseconds. */
  get lastOut(): number {
    return this.#lastOut
  }

  put(frame: Buffer): void {
    this.begin()
    this.#frames.push(frame)
    this.#frameBytes += frame.length
    if (this.#frameBytes >= MAX_CHUNK) this.flush()
  }

  /** Makes sure that the end of this turn is told. */
  begin(): void {
    if (this.#inTurn) return
    this.#inTurn = true
    this.#lastOut = performance.now()
    setImmediate(this.#endTurn)
  }

  flush(): void {
    const frames = this.#frames
    const [first] = frames
    if (!first) return
    this.#frames = []
    this.#frameBytes = 0
    this.#socket.send(frames.length === 1 ? first : Buffer.concat(frames), this.#events.onSent)
  }

  #turnOver(): void {
    this.#inTurn = false
    this.#events.onTurnOver()
    this.flush()
  }
}
