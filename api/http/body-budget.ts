import { temporaryError } from '../../domain/errors.ts'
import { stringEnd } from '../../platform/json-bytes.ts'

/** The memory that one request holds; it is released after the response. */
export interface Held {
  readonly owner: string
  bytes: number
}

/** Owns the bodies of all callers that are not identified before their body is read. */
export const UNAUTHENTICATED = 'unauthenticated'
const UNAUTHENTICATED_FRACTION = 32
/** The memory that any owner may hold even when the budget is exhausted: the body of an ordinary request. */
const ALWAYS_BYTES = 256 * 1024
const SWEEP_ABOVE = 10_000

/**
 * The memory for request bodies on this gateway, over all connections. An account may hold as much as it leaves free:
 * half of the budget when it is alone, and always less than what is left. Callers that are not identified before their
 * body is read share a small separate part. Beyond that a request gets `no_capacity`, except for the small amount that
 * any account may always hold, so that no account can shut out the others, alone or with help.
 */
export class BodyBudget {
  readonly #bytes: number
  readonly #heldBy = new Map<string, { bytes: number }>()
  #held = 0

  /** @param bytes the limit for all bodies together. */
  constructor(bytes: number) {
    this.#bytes = bytes
  }

  /** Bytes in use by accounts. */
  get held(): number {
    return this.#held
  }

  /** The most that one owner may hold, which is also the largest possible body. */
  get share(): number {
    return Math.floor(this.#bytes / 2)
  }

  /** Returns whether this owner may hold `bytes` more now. */
  fits(owner: string, bytes: number): boolean {
    const own = this.#of(owner).bytes + bytes
    const isOver =
      owner === UNAUTHENTICATED
        ? own > this.#bytes / UNAUTHENTICATED_FRACTION
        : own > ALWAYS_BYTES && own > this.#bytes - this.#held - bytes
    return !isOver && own <= this.share
  }

  /** Throws when `bytes` more for this owner would be too much. */
  check(owner: string, bytes: number): void {
    if (this.fits(owner, bytes)) return
    throw temporaryError(
      'no_capacity',
      'too many large requests are being received; try again in a moment',
      1,
    )
  }

  /** Reserves `bytes` more; throws, and reserves nothing, when that would be too much. */
  hold(held: Held, bytes: number): void {
    this.check(held.owner, bytes)
    held.bytes += bytes
    if (held.owner !== UNAUTHENTICATED) this.#held += bytes
    this.#of(held.owner).bytes += bytes
  }

  /** Releases everything; safe to repeat. */
  release(held: Held): void {
    this.#of(held.owner).bytes -= held.bytes
    if (held.owner !== UNAUTHENTICATED) this.#held -= held.bytes
    held.bytes = 0
  }

  /** The entry stays between requests; owners without any memory are dropped once there are many. */
  #of(owner: string): { bytes: number } {
    const known = this.#heldBy.get(owner)
    if (known) return known
    if (this.#heldBy.size >= SWEEP_ABOVE) {
      for (const [other, { bytes }] of this.#heldBy) if (bytes === 0) this.#heldBy.delete(other)
    }
    const fresh = { bytes: 0 }
    this.#heldBy.set(owner, fresh)
    return fresh
  }
}

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_LIST = 0x5b
const OPEN_OBJECT = 0x7b
/** In V8 a list occupies 32 bytes, a row of a table 24 and 8 per column; objects with unlike names occupy up to 70. */
const CONTAINER_BYTES = 32
const MEMBER_BYTES = 8
/** Longer texts are stored a second time, as values; shorter ones are mostly member names, which are stored once. */
const SHORT_TEXT = 32

/**
 * Estimates the memory of a JSON text's parsed values: about the same as the text for long texts, many
 * times as much for `{},{},`.
 */
export function parsedBytes(json: Buffer): number {
  let containers = 0
  let members = 0
  let texts = 0
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (byte === COMMA) members++
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) containers++
    else if (byte === QUOTE) {
      const end = stringEnd(json, at) - 1
      if (end - at > SHORT_TEXT) texts += end - at
      at = end
    }
  }
  return texts + containers * CONTAINER_BYTES + members * MEMBER_BYTES
}
