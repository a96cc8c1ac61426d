import { createHash, timingSafeEqual } from 'node:crypto'
import type { EdgeAttempt } from './payload.ts'

/** Something of an attempt that ends with it: a connection, a session. */
export interface Ending {
  destroy(): void
}

interface Admission {
  attempt: number
  ticketSha256: Buffer
  /** By the monotonic clock, until which the consumer has to begin. */
  beginBy: number
  isBegun: boolean
  endings: Set<Ending>
}

const NO_TICKET = Buffer.alloc(32)

/** Who may fetch from this node: for each edge the consumer that has the ticket of the current attempt. */
export class Tickets {
  readonly #admissions = new Map<string, Admission>()

  /** Admits the bearer of a ticket, of which only the digest is known here. Earlier attempts of the edge end. */
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

  /** Returns whether the ticket opens this attempt now. Once begun, it does so until the attempt ends. */
  admits({ edgeId, attempt }: EdgeAttempt, ticket: string): boolean {
    const admission = this.#admissions.get(edgeId)
    const shown = createHash('sha256').update(ticket).digest()
    const isRight = timingSafeEqual(shown, admission?.ticketSha256 ?? NO_TICKET)
    if (!admission || !isRight || admission.attempt !== attempt) return false
    return admission.isBegun || performance.now() < admission.beginBy
  }

  /** Notes that the consumer has begun; `ending` ends with the attempt. */
  begin({ edgeId, attempt }: EdgeAttempt, ending: Ending): void {
    const admission = this.#admissions.get(edgeId)
    if (admission?.attempt !== attempt) return ending.destroy()
    admission.isBegun = true
    admission.endings.add(ending)
  }

  over({ edgeId }: EdgeAttempt, ending: Ending): void {
    this.#admissions.get(edgeId)?.endings.delete(ending)
  }

  /** Ends this attempt of an edge, and every earlier one, with the connections of them. */
  end({ edgeId, attempt }: EdgeAttempt): void {
    const admission = this.#admissions.get(edgeId)
    if (!admission || admission.attempt > attempt) return
    this.#admissions.delete(edgeId)
    for (const ending of admission.endings) ending.destroy()
  }

  endAll(): void {
    for (const [edgeId, { attempt }] of this.#admissions) this.end({ edgeId, attempt })
  }

  /** Forgets tickets that nobody has used in time, so that they cannot pile up. */
  #forgetLate(): void {
    const now = performance.now()
    for (const [edgeId, { isBegun, beginBy }] of this.#admissions)
      if (!isBegun && beginBy <= now) this.#admissions.delete(edgeId)
  }
}
