import { tokensOf } from '../../../domain/chat.ts'

const LF = 0x0a
const CR = 0x0d
const DONE = '[DONE]'
const USAGE = '"usage"'
/** An event that is longer is passed on in pieces. */
const MAX_HELD = 4 * 1024 * 1024

/**
 * The events of a model server on their way to a client: whole ones, byte for byte, and nothing behind `[DONE]`. What an
 * event says of usage is looked at, never changed.
 */
export class EventStream {
  #held: Buffer[] = []
  #heldBytes = 0
  #lastUsage: Buffer | undefined
  #isDone = false

  /** The server has said `[DONE]`. */
  get isDone(): boolean {
    return this.#isDone
  }

  /** Gives the bytes that may go on now: all events that are complete. */
  take(chunk: Buffer): Buffer | undefined {
    if (this.#isDone) return undefined
    // The blank line may come in two pieces.
    const meets = this.#heldBytes > 0 && (chunk[0] === LF || chunk[0] === CR)
    const bytes = meets ? this.#takeHeld(chunk) : chunk
    const end = eventsEnd(bytes)
    if (end === bytes.length && this.#heldBytes === 0) return this.#pass(bytes)
    if (end > 0) {
      const whole = this.#takeHeld(bytes.subarray(0, end))
      this.#hold(bytes.subarray(end))
      return this.#pass(whole)
    }
    this.#hold(bytes)
    return this.#heldBytes > MAX_HELD ? this.#pass(this.#takeHeld()) : undefined
  }

  /** What is left when the server has ended: an event without its blank line gets one. */
  rest(): Buffer | undefined {
    if (this.#isDone || this.#heldBytes === 0) return undefined
    const last = this.#takeHeld()
    if (last.every((byte) => byte === LF || byte === CR)) return undefined
    return this.#pass(Buffer.concat([last, Buffer.from('\n\n')]))
  }

  /** The tokens that the server has counted; 0 when it did not say. */
  tokens(): number {
    const bytes = this.#lastUsage
    if (!bytes) return 0
    // The last of hundreds of events, most likely: from behind, one at a time.
    let end = bytes.length
    for (let at = bytes.lastIndexOf(USAGE); at !== -1; at = bytes.subarray(0, end).lastIndexOf(USAGE)) {
      const start = eventsEnd(bytes.subarray(0, at))
      const count = tokensInEvent(bytes.toString('utf8', start, end).split(/\r?\n\r?\n/, 1)[0]!)
      if (count > 0) return count
      end = start
    }
    return 0
  }

  #hold(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.#held.push(bytes)
    this.#heldBytes += bytes.length
  }

  #takeHeld(...more: Buffer[]): Buffer {
    const all = [...this.#held, ...more]
    this.#held = []
    this.#heldBytes = 0
    return all.length === 1 ? all[0]! : Buffer.concat(all)
  }

  #pass(events: Buffer): Buffer {
    if (events.includes(USAGE)) this.#lastUsage = events
    const end = doneEnd(events)
    if (end === undefined) return events
    this.#isDone = true
    return events.subarray(0, end)
  }
}

/** Just behind the last blank line; 0 when there is none. */
function eventsEnd(bytes: Buffer): number {
  for (let at = bytes.lastIndexOf(LF); at > 0; at = bytes.lastIndexOf(LF, at - 1)) {
    if (bytes[at - 1] === LF) return at + 1
    if (bytes[at - 1] === CR && bytes[at - 2] === LF) return at + 1
  }
  return 0
}

/** Behind the event that ends the stream; text of a token may hold the same word, but not at the start of a line. */
function doneEnd(events: Buffer): number | undefined {
  for (let at = events.indexOf(DONE); at !== -1; at = events.indexOf(DONE, at + 1)) {
    const lineStart = at === 0 ? 0 : events.lastIndexOf(LF, at - 1) + 1
    if (events.toString('latin1', lineStart, at).trimEnd() !== 'data:') continue
    const blank = events.indexOf(LF, events.indexOf(LF, at) + 1)
    return blank === -1 ? events.length : blank + 1
  }
  return undefined
}

function tokensInEvent(event: string): number {
  const data = event
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length))
    .join('\n')
  return tokensOf(data) ?? 0
}
