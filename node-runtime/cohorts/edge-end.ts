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
} from '../../schemas/cohort-edge.ts'
import type { EdgeMode, Transport } from '../../schemas/cohort-vocabulary.ts'
import { type ControlClient, ControlError } from '../control/client.ts'
import type { EdgeAttempt } from '../edges/payload.ts'

/** The time in which a failure is told. */
const FAIL_MS = 5_000

/** The stage at this end, and the lease under which its node works. */
export interface EdgeCaller {
  control: ControlClient
  cohortId: string
  leaseToken: string
  /** The key of the account's turns. */
  turn?: string | undefined
}

interface Negotiating {
  /** True for an answer at once, without news. */
  isImmediate?: boolean
  signal: AbortSignal
  onAttempt?: () => void
}

type TransferStep = Omit<EdgeAttemptRequest, 'attempt' | 'lease_token' | 'role'>

/** One end of a hand-over, as its node speaks with the platform. It follows the platform to later attempts. */
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
   * Offers to give or take the payload, and waits for news; that there is another attempt is news by itself. `onAttempt` is
   * called before an offer at a later attempt.
   */
  async negotiate(
    offer: EdgeOffer,
    { isImmediate = false, signal, onAttempt }: Negotiating,
  ): Promise<EdgeNegotiated> {
    const { control, cohortId, turn = cohortId } = this.#caller
    const ask = (wait_ms: number) =>
      this.#call<EdgeNegotiated>('negotiate', { role: this.#role, wait_ms, offer }, signal)
    for (let mayWait = !isImmediate; ; mayWait = false) {
      try {
        const answer = await (mayWait ? control.longPoll(turn, signal, ask) : ask(0))
        if (answer.attempt <= this.#attempt) return answer
        // Another payload than was stated goes with another attempt.
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

  /** Tells a step of the transfer, or of the session. */
  transfer(step: TransferStep, signal: AbortSignal, mode: EdgeMode = 'transfer'): Promise<EdgeAttempted> {
    return this.#call(mode, { role: this.#role, ...step }, signal)
  }

  async consume(taken: object, signal: AbortSignal): Promise<EdgeConsumed> {
    const answer = await this.#call<EdgeConsumed>('consume', taken, signal)
    throwIfFailed(answer)
    return answer
  }

  /** Returns whether a call was refused because this attempt has ended: there is another one, or it has failed. */
  hasMovedOn(err: unknown): boolean {
    if (!(err instanceof ControlError) || err.status !== 409) return false
    const { attempt, state } = err.details
    return typeof attempt === 'number' && (attempt > this.#attempt || state === 'failed')
  }

  /** Ends this attempt with a failure. The platform finds out by itself if it cannot be told. */
  async fail(err: unknown, transport: Transport): Promise<void> {
    const failure = err instanceof EdgeError ? err.failure : 'stalled'
    const message = reasonOf(err)
    const soon = AbortSignal.timeout(FAIL_MS)
    await this.transfer({ phase: 'fail', transport, failure, message }, soon).catch(() => {})
  }

  #call<T>(
    verb: 'negotiate' | 'rendezvous' | 'consume' | EdgeMode,
    body: object,
    signal: AbortSignal,
  ): Promise<T> {
    const { control, cohortId, leaseToken } = this.#caller
    const place = { cohortId, edgeId: this.edgeId }
    const call = { attempt: this.#attempt, lease_token: leaseToken, ...body }
    return control.edge<T>(verb, place, call, { signal })
  }
}

/** Returns the words of an error as the platform takes them: what was cut may end in half a character. */
export const reasonOf = (err: unknown): string =>
  storable((err instanceof Error ? err.message : String(err)).slice(0, 500))

/** Returns whether the platform takes no such call: the edge is of another lease, at another attempt or state, or its cohort has ended. */
export const isRefusal = (err: unknown): boolean =>
  err instanceof ControlError && (err.status === 404 || err.status === 409)

/** Throws for an attempt that has failed; its word is the platform's. */
export function throwIfFailed({ state, failure = 'expired' }: Directive): void {
  if (state === 'failed') throw new EdgeError(failure, `the hand-over failed: ${failure}`)
}

/** Waits as long as the platform asks for. */
export async function pauseAfter({ retry_after_ms: ms }: Directive, signal: AbortSignal): Promise<void> {
  if (ms !== undefined) await sleep(ms, undefined, { signal })
}
