import { createHash, timingSafeEqual } from 'node:crypto'
import type { EdgeAttempt } from './payload.ts'

/** A resource that ends with its attempt, such as a connection. */
export interface Destroyable {
  destroy(): void
}

interface Admission {
  attempt: number
  ticketSha256: Buffer
  /** The deadline for the consumer to start, on the monotonic clock. */
  beginBy: number
  isBegun: boolean
  endings: Set<Destroyable>
}

const NO_TICKET = Buffer.alloc(32)

/** Controls who may fetch from this node: for each edge, the bearer of the current attempt's ticket. */
export class Tickets {
  readonly #admissions = new Map<string, Admission>()

  /** Admits the bearer of a ticket; this node knows only its digest. Ends earlier attempts of the edge. */
  admit(
    { edgeId, attempt }: EdgeAttempt,
    { ticketSha256, beginWithinMs }: { ticketSha256: string; beginWithinMs: number },
  ): void {
    const before = this.#admissions.get(edgeId)
    if (before && before.attempt > attempt) return
    this.#forgetLate()
    if (before) this.end({ edgeId, attempt })
    this.#admissions.set(edgeId, {
      attempt,
      ticketSha256: Buffer.from(ticketSha256, 'hex'),
      beginBy: performance.now() + beginWithinMs,
      isBegun: false,
      endings: new Set(),
    })
  }

  /** Returns whether the ticket is valid for this attempt now. Once used, it stays valid until the attempt ends. */
  admits({ edgeId, attempt }: EdgeAttempt, ticket: string): boolean {
    const admission = this.#admissions.get(edgeId)
    const shown = createHash('sha256').update(ticket).digest()
    const isRight = timingSafeEqual(shown, admission?.ticketSha256 ?? NO_TICKET)
    if (!admission || !isRight || admission.attempt !== attempt) return false
    return admission.isBegun || performance.now() < admission.beginBy
  }

  /** Records that the consumer has started. `ending` is destroyed with the attempt. */
  begin({ edgeId, attempt }: EdgeAttempt, ending: Destroyable): void {
    const admission = this.#admissions.get(edgeId)
    if (admission?.attempt !== attempt) return ending.destroy()
    admission.isBegun = true
    admission.endings.add(ending)
  }

  over({ edgeId }: EdgeAttempt, ending: Destroyable): void {
    this.#admissions.get(edgeId)?.endings.delete(ending)
  }

  /** Ends this attempt of an edge, or an earlier one, and its connections. */
  end({ edgeId, attempt }: EdgeAttempt): void {
    const admission = this.#admissions.get(edgeId)
    if (!admission || admission.attempt > attempt) return
    this.#admissions.delete(edgeId)
    for (const ending of admission.endings) ending.destroy()
  }

  endAll(): void {
    for (const [edgeId, { attempt }] of this.#admissions) this.end({ edgeId, attempt })
  }

  /** Drops tickets that were not used in time, so that they can't pile up. */
  #forgetLate(): void {
    const now = performance.now()
    for (const [edgeId, { isBegun, beginBy }] of this.#admissions)
      if (!isBegun && beginBy <= now) this.#admissions.delete(edgeId)
  }
}
