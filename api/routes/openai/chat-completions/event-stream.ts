import { NO_TOKENS, type TokenCounts, tokensOf } from '../../../../domain/chat/chat.ts'
import { compact } from '../../../../platform/link/codec.ts'
import type { MemoryReservation } from '../../../gateway/links/response-memory.ts'
import { dataOf } from '../calls/event-data.ts'

const LF = 0x0a
const CR = 0x0d
const DONE = '[DONE]'
const USAGE = '"usage"'
/** A longer event is forwarded in pieces, and so is an event for which there is no memory. */
const MAX_HELD = 4 * 1024 * 1024
const FIRST_HELD = 64 * 1024

/**
 * Splits a model server's stream into complete events for the client, byte for byte, and drops everything after
 * `[DONE]`. It reads the usage in events but never changes it.
 */
export class EventStream {
  readonly #room: Pick<MemoryReservation, 'grow'>
  #held: Buffer = Buffer.alloc(0)
  #heldBytes = 0
  #lastUsage: Buffer | undefined
  #isDone = false

  constructor(room: Pick<MemoryReservation, 'grow'>) {
    this.#room = room
  }

  /** True once the server has sent `[DONE]`. */
  get isDone(): boolean {
    return this.#isDone
  }

  /** Returns the bytes that can be sent now: all complete events. */
  take(chunk: Buffer): Buffer | undefined {
    if (this.#isDone) return undefined
    // The blank line may arrive in two pieces.
    const meets = this.#heldBytes > 0 && (chunk[0] === LF || chunk[0] === CR)
    const bytes = meets ? this.#takeHeld(chunk) : chunk
    const end = eventsEnd(bytes)
    if (end === bytes.length && this.#heldBytes === 0) return this.#pass(bytes)
    if (end > 0) {
      const whole = this.#takeHeld(bytes.subarray(0, end))
      // The rest is less than a chunk, so it always fits.
      this.#hold(bytes.subarray(end))
      return this.#pass(whole)
    }
    return this.#hold(bytes) ? undefined : this.#pass(this.#takeHeld(bytes))
  }

  /** Returns the remaining bytes once the server has ended its stream; an event without its blank line gets one. */
  rest(): Buffer | undefined {
    if (this.#isDone || this.#heldBytes === 0) return undefined
    const last = this.#takeHeld()
    if (last.every((byte) => byte === LF || byte === CR)) return undefined
    return this.#pass(Buffer.concat([last, Buffer.from('\n\n')]))
  }

  /** Returns the tokens that the server reported, if any. */
  tokens(): TokenCounts {
    const bytes = this.#lastUsage
    if (!bytes) return NO_TOKENS
    // The usage is most likely in the last of hundreds of events, so the search runs backwards.
    let end = bytes.length
    for (let at = bytes.lastIndexOf(USAGE); at !== -1; at = bytes.subarray(0, end).lastIndexOf(USAGE)) {
      const start = eventsEnd(bytes.subarray(0, at))
      const [event = ''] = bytes.toString('utf8', start, end).split(/\r?\n\r?\n/, 1)
      const count = tokensInEvent(event)
      if (count !== NO_TOKENS) return count
      end = start
    }
    return NO_TOKENS
  }

  /** Stores a copy of the bytes, which may be a small part of a large buffer; returns false if there are too many. */
  #hold(bytes: Buffer): boolean {
    const length = this.#heldBytes + bytes.length
    if (length > this.#held.length && !this.#widen(length)) return false
    this.#held.set(bytes, this.#heldBytes)
    this.#heldBytes = length
    return true
  }

  #widen(length: number): boolean {
    if (length > MAX_HELD) return false
    const capacity = Math.min(MAX_HELD, Math.max(256, length, 2 * this.#held.length))
    const more = Math.max(FIRST_HELD, capacity) - Math.max(FIRST_HELD, this.#held.length)
    if (more > 0 && !this.#room.grow(more)) return false
    const wider = Buffer.allocUnsafe(capacity)
    wider.set(this.#held.subarray(0, this.#heldBytes))
    this.#held = wider
    return true
  }

  #takeHeld(more?: Buffer): Buffer {
    if (this.#heldBytes === 0 && more) return more
    const held = this.#held.subarray(0, this.#heldBytes)
    this.#heldBytes = 0
    // Copy, because the buffer is reused for the next bytes.
    return Buffer.concat(more ? [held, more] : [held])
  }

  #pass(events: Buffer): Buffer {
    if (events.includes(USAGE)) this.#lastUsage = compact(events)
    const end = doneEnd(events)
    if (end === undefined) return events
    this.#isDone = true
    return events.subarray(0, end)
  }
}

/** Returns the position after the last blank line; 0 when there is none. */
function eventsEnd(bytes: Buffer): number {
  for (let at = bytes.lastIndexOf(LF); at > 0; at = bytes.lastIndexOf(LF, at - 1)) {
    if (bytes[at - 1] === LF) return at + 1
    if (bytes[at - 1] === CR && bytes[at - 2] === LF) return at + 1
  }
  return 0
}

/**
 * Returns the position after the event that ends the stream. The text of a token may contain the same word, but not at
 * the start of a line.
 */
function doneEnd(events: Buffer): number | undefined {
  for (let at = events.indexOf(DONE); at !== -1; at = events.indexOf(DONE, at + 1)) {
    const lineStart = at === 0 ? 0 : events.lastIndexOf(LF, at - 1) + 1
    if (events.toString('latin1', lineStart, at).trimEnd() !== 'data:') continue
    const blank = events.indexOf(LF, events.indexOf(LF, at) + 1)
    return blank === -1 ? events.length : blank + 1
  }
  return undefined
}

function tokensInEvent(event: string): TokenCounts {
  const data = dataOf(event)
  return (data === undefined ? undefined : tokensOf(data)) ?? NO_TOKENS
}
