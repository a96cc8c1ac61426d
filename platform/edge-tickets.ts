import { createHmac, hkdfSync } from 'node:crypto'
import { sha256Hex } from './signing.ts'

/** The single transfer that a ticket is for. */
export interface TicketScope {
  edgeId: string
  attempt: number
  /** The node that may fetch the payload. */
  consumerId: string
}

/**
 * The tickets with which consumers fetch payloads from their producers. A ticket has 256 bits that only a process with
 * `HEARTH_ENCRYPTION_KEYS` can derive. It is deterministic, so we store no tickets and a repeated request gets the same
 * one. Producers know only the digests.
 */
export class EdgeTickets {
  readonly #keys: readonly Buffer[]

  constructor(keys: readonly string[]) {
    this.#keys = keys.map((text) =>
      Buffer.from(hkdfSync('sha256', Buffer.from(text, 'base64'), '', 'hearth edge ticket', 32)),
    )
  }

  /** Returns the digest of a transfer's ticket, for its producer. */
  digestOf(place: TicketScope): string {
    return sha256Hex(this.#tickets(place)[0] ?? '')
  }

  /** Returns the ticket with this digest, even after a key rotation; undefined once its key has been removed. */
  find(place: TicketScope, digest: string): string | undefined {
    return this.#tickets(place).find((ticket) => sha256Hex(ticket) === digest)
  }

  #tickets({ edgeId, attempt, consumerId }: TicketScope): string[] {
    const scope = `${edgeId}/${attempt}/${consumerId}`
    return this.#keys.map((key) => createHmac('sha256', key).update(scope).digest('base64url'))
  }
}
