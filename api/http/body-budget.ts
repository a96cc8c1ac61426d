import { ApiError } from '../../domain/errors.ts'

/** What one request holds of the budget; given back when it has been answered. */
export interface Held {
  readonly owner: string
  bytes: number
}

/**
 * The memory that request bodies may take on this gateway, over all connections. One account may hold half of it, and so
 * may all who are not identified before their body is read: nobody shuts out the others. Beyond it: `no_capacity`.
 */
export class BodyBudget {
  readonly #bytes: number
  readonly #heldBy = new Map<string, number>()
  #held = 0

  /** @param bytes of all bodies together. */
  constructor(bytes: number) {
    this.#bytes = bytes
  }

  /** Bytes held now. */
  get held(): number {
    return this.#held
  }

  /** The most that one owner may hold, and so the largest body there can be. */
  get share(): number {
    return Math.floor(this.#bytes / 2)
  }

  /** Throws when `bytes` more for this owner would be too much. */
  check(owner: string, bytes: number): void {
    const isOver = this.#held + bytes > this.#bytes || (this.#heldBy.get(owner) ?? 0) + bytes > this.share
    if (!isOver) return
    throw new ApiError('no_capacity', 'too many large requests are being received; try again in a moment', {
      details: { retry_after_s: 1 },
      headers: { 'retry-after': '1' },
    })
  }

  /** Takes `bytes` more; throws, and takes nothing, when that would be too much. */
  hold(held: Held, bytes: number): void {
    this.check(held.owner, bytes)
    held.bytes += bytes
    this.#held += bytes
    this.#heldBy.set(held.owner, (this.#heldBy.get(held.owner) ?? 0) + bytes)
  }

  /** Gives everything back; safe to repeat. */
  release(held: Held): void {
    const left = (this.#heldBy.get(held.owner) ?? 0) - held.bytes
    this.#held -= held.bytes
    held.bytes = 0
    if (left > 0) this.#heldBy.set(held.owner, left)
    else this.#heldBy.delete(held.owner)
  }
}

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_LIST = 0x5b
const OPEN_OBJECT = 0x7b
/** A list takes 32 bytes, a row of a table 24 and 8 a column; unlike names take up to 70 (V8, measured). */
const CONTAINER_BYTES = 32
const MEMBER_BYTES = 8
/** Longer texts are held a second time, as values; shorter ones are mostly names, which are held once. */
const SHORT_TEXT = 32

/** About what the values of a JSON text take beside it: as much for long texts, many times as much for `{},{},`. */
export function parsedBytes(json: Buffer): number {
  let containers = 0
  let members = 0
  let texts = 0
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (byte === COMMA) members++
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) containers++
    else if (byte === QUOTE) {
      // Long texts are passed over in one step: an image in base64.
      const end = json.indexOf(QUOTE, at + 1)
      if (end === -1) break
      if (end - at > SHORT_TEXT) texts += end - at
      if (json[end - 1] !== 0x5c) at = end
    }
  }
  return texts + containers * CONTAINER_BYTES + members * MEMBER_BYTES
}
