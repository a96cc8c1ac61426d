import type { WebSocket } from 'ws'
import { MAX_CHUNK } from '../../schemas/nodes/link.ts'

export interface TurnEvents {
  /** Called at the end of a turn of the event loop; frames that it writes are sent with that turn's other frames. */
  onTurnOver: () => void
  /** Called when a message has been sent to the network. */
  onSent: () => void
}

/**
 * Sends the frames of one turn of the event loop as one message, or several if they are large. With small frames, most
 * of the cost is per message and write.
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

  /** Bytes that are waiting on our side of the connection. */
  get waitingBytes(): number {
    return this.#frameBytes + this.#socket.bufferedAmount
  }

  /** The time of the last send, in milliseconds on this process's monotonic clock. */
  get lastOut(): number {
    return this.#lastOut
  }

  put(frame: Buffer): void {
    this.begin()
    this.#frames.push(frame)
    this.#frameBytes += frame.length
    if (this.#frameBytes >= MAX_CHUNK) this.flush()
  }

  /** Schedules the end of this turn. */
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
