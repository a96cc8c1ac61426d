import { setTimeout as sleep } from 'node:timers/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { storable } from '../../domain/storable-text.ts'
import type {
  Directive,
  EdgeAttempted,
  EdgeAttemptRequest,
  EdgeConsumed,
  EdgeNegotiated,
  EdgeOffer,
  EdgeRendezvous,
  EdgeRole,
} from '../../schemas/cohorts/edge.ts'
import type { EdgeMode, Transport } from '../../schemas/cohorts/vocabulary.ts'
import { type ControlClient, ControlError } from '../control/client.ts'
import type { EdgeAttempt } from '../edges/payload.ts'

/** The time limit for reporting a failure to the platform. */
const FAIL_TIMEOUT_MS = 5_000

/** The stage at this end, and the lease under which its node works. */
export interface EdgeCaller {
  control: ControlClient
  cohortId: string
  leaseToken: string
  /** The account's key for taking turns. */
  turn?: string | undefined
}

interface NegotiateOptions {
  /** Requests an immediate answer instead of waiting for news. */
  isImmediate?: boolean
  signal: AbortSignal
  onAttempt?: () => void
}

type TransferStep = Omit<EdgeAttemptRequest, 'attempt' | 'lease_token' | 'role'>

/** A node's client for one end of a hand-over. Moves on to later attempts when the platform starts them. */
export class EdgeEnd {
  readonly edgeId: string
  readonly #caller: EdgeCaller
  readonly #role: EdgeRole
  #attempt: number

  constructor(caller: EdgeCaller, role: EdgeRole, edge: { edge_id: string; attempt: number }) {
    this.#caller = caller
    this.#role = role
    this.edgeId = edge.edge_id
    this.#attempt = edge.attempt
  }

  get at(): EdgeAttempt {
    return { edgeId: this.edgeId, attempt: this.#attempt }
  }

  /**
   * Offers to send or receive the payload and waits for news, such as a new attempt. Calls `onAttempt` before it
   * repeats the offer at a later attempt.
   */
  async negotiate(
    offer: EdgeOffer,
    { isImmediate = false, signal, onAttempt }: NegotiateOptions,
  ): Promise<EdgeNegotiated> {
    const { control, cohortId, turn = cohortId } = this.#caller
    const ask = (wait_ms: number) =>
      this.#call<EdgeNegotiated>('negotiate', { role: this.#role, wait_ms, offer }, signal)
    for (let mayWait = !isImmediate; ; mayWait = false) {
      try {
        const answer = await (mayWait ? control.longPoll(turn, signal, ask) : ask(0))
        if (answer.attempt <= this.#attempt) return answer
        // A later attempt may have a different payload, so make the offer again.
        this.#attempt = answer.attempt
        onAttempt?.()
      } catch (err) {
        const current = err instanceof ControlError && err.status === 409 ? err.details['attempt'] : undefined
        if (typeof current !== 'number' || current <= this.#attempt) throw err
        this.#attempt = current
        onAttempt?.()
      }
    }
  }

  rendezvous(said: object, signal: AbortSignal): Promise<EdgeRendezvous> {
    return this.#call('rendezvous', { role: this.#role, ...said }, signal)
  }

  /** Reports a step of the transfer or session. */
  transfer(step: TransferStep, signal: AbortSignal, mode: EdgeMode = 'transfer'): Promise<EdgeAttempted> {
    return this.#call(mode, { role: this.#role, ...step }, signal)
  }

  async consume(taken: object, signal: AbortSignal): Promise<EdgeConsumed> {
    const answer = await this.#call<EdgeConsumed>('consume', taken, signal)
    throwIfFailed(answer)
    return answer
  }

  /** Returns whether a call was refused because this attempt is over: it failed, or a later one has begun. */
  hasMovedOn(err: unknown): boolean {
    if (!(err instanceof ControlError) || err.status !== 409) return false
    const { attempt, state } = err.details
    return typeof attempt === 'number' && (attempt > this.#attempt || state === 'failed')
  }

  /** Reports that this attempt failed. If the report is lost, the platform times the attempt out by itself. */
  async fail(err: unknown, transport: Transport): Promise<void> {
    const failure = err instanceof EdgeError ? err.failure : 'stalled'
    const message = reasonOf(err)
    const soon = AbortSignal.timeout(FAIL_TIMEOUT_MS)
    await this.transfer({ phase: 'fail', transport, failure, message }, soon).catch(() => {})
  }

  #call<T>(
    verb: 'negotiate' | 'rendezvous' | 'consume' | EdgeMode,
    body: object,
    signal: AbortSignal,
  ): Promise<T> {
    const { control, cohortId, leaseToken } = this.#caller
    const edgeRef = { cohortId, edgeId: this.edgeId }
    const call = { attempt: this.#attempt, lease_token: leaseToken, ...body }
    return control.edge<T>(verb, edgeRef, call, { signal })
  }
}

/** Returns an error message that the platform can store: truncation may leave half a surrogate pair at the end. */
export const reasonOf = (err: unknown): string =>
  storable((err instanceof Error ? err.message : String(err)).slice(0, 500))

/**
 * Returns whether the platform rejected a call as obsolete: the edge belongs to another lease, is at another attempt or
 * in another state, or its cohort has ended.
 */
export const isRefusal = (err: unknown): boolean =>
  err instanceof ControlError && (err.status === 404 || err.status === 409)

/** Throws if the platform reports that the attempt failed. */
export function throwIfFailed({ state, failure = 'expired' }: Directive): void {
  if (state === 'failed') throw new EdgeError(failure, `the hand-over failed: ${failure}`)
}

/** Waits for the platform's `retry_after_ms`, if it set one. */
export async function pauseAfter({ retry_after_ms: ms }: Directive, signal: AbortSignal): Promise<void> {
  if (ms !== undefined) await sleep(ms, undefined, { signal })
}
