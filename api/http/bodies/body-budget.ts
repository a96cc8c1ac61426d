import { temporaryError } from '../../../domain/errors.ts'

/** The memory reserved for one request, released after the response. */
export interface BudgetReservation {
  readonly owner: string
  bytes: number
}

/** The owner of bodies from all callers that aren't identified before their body is read. */
export const UNAUTHENTICATED = 'unauthenticated'
const UNAUTHENTICATED_FRACTION = 32
/** The memory that any owner may use even if the budget is exhausted: enough for the body of an ordinary request. */
const ALWAYS_BYTES = 256 * 1024
const SWEEP_ABOVE = 10_000

/**
 * The memory for request bodies on this gateway, across all connections. An account may use at most as much as it
 * leaves free: half of the budget if no other account uses any. Callers that aren't identified before their body is
 * read share a small separate part. Beyond these limits a request gets `no_capacity`. Any account may always use
 * `ALWAYS_BYTES`, so no account can lock out the others, alone or together.
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

  /** The maximum per owner, and so the largest possible body. */
  get share(): number {
    return Math.floor(this.#bytes / 2)
  }

  /** Returns whether this owner may reserve `bytes` more now. */
  fits(owner: string, bytes: number): boolean {
    const ownerBytes = this.#of(owner).bytes + bytes
    const isOver =
      owner === UNAUTHENTICATED
        ? ownerBytes > this.#bytes / UNAUTHENTICATED_FRACTION
        : ownerBytes > ALWAYS_BYTES && ownerBytes > this.#bytes - this.#held - bytes
    return !isOver && ownerBytes <= this.share
  }

  /** Throws if this owner may not reserve `bytes` more. */
  check(owner: string, bytes: number): void {
    if (this.fits(owner, bytes)) return
    throw temporaryError(
      'no_capacity',
      'too many large requests are being received; try again in a moment',
      1,
    )
  }

  /** Reserves `bytes` more, or throws and reserves nothing if that is too much. */
  hold(held: BudgetReservation, bytes: number): void {
    this.check(held.owner, bytes)
    held.bytes += bytes
    if (held.owner !== UNAUTHENTICATED) this.#held += bytes
    this.#of(held.owner).bytes += bytes
  }

  /** Releases everything; safe to repeat. */
  release(held: BudgetReservation): void {
    this.#of(held.owner).bytes -= held.bytes
    if (held.owner !== UNAUTHENTICATED) this.#held -= held.bytes
    held.bytes = 0
  }

  /** Entries are reused between requests; once there are many, owners without any memory are dropped. */
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
