import { setTimeout as sleep } from 'node:timers/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { Agreement, EdgeOffer } from '../../schemas/cohorts/edge.ts'
import type { EdgeFailure } from '../../schemas/cohorts/vocabulary.ts'
import type { Edges } from '../edges/edges.ts'
import type { Payload } from '../edges/payload.ts'
import type { EdgePeer } from '../edges/pinned-client.ts'
import { type EdgeEnd, isRefusal, throwIfFailed } from './edge-end.ts'

/** The interval of progress reports. The platform counts an attempt as lost after 10 s of silence. */
export const PROGRESS_INTERVAL_MS = 2_000
/**
 * How long we wait for a payload's keeper to learn of a new attempt, and for the platform to act on the broken session
 * of a complete payload.
 */
export const NEW_ATTEMPT_TIMEOUT_MS = 5_000
/** How long we wait for the platform to act on a broken session whose producer hasn't finished the payload. */
const BROKEN_SESSION_TIMEOUT_MS = 60_000
const RETRY_DELAY_MS = 1_000

/** Thrown when a session's connection ends before its last frame. */
export class BrokenSession extends Error {
  override readonly name = 'BrokenSession'
  readonly why: EdgeError

  constructor(why: EdgeError) {
    super(why.message, { cause: why })
    this.why = why
  }
}

/** Failures on the consumer's side, which a new attempt by the producer can't fix. */
const OWN: ReadonlySet<EdgeFailure> = new Set(['no_room', 'size_mismatch', 'digest_mismatch'])

/** Receives a payload as frames while its producer is still producing it. */
export async function receiveFrames(
  end: EdgeEnd,
  { max_bytes: maxBytes, window_bytes: windowBytes }: Agreement,
  { peer, edges, signal }: { peer: EdgePeer; edges: Edges; signal: AbortSignal },
): Promise<Payload> {
  const transport = 'direct'
  const startedAt = performance.now()
  throwIfFailed(await end.transfer({ phase: 'begin', transport }, signal, 'session'))
  const movedOn = new AbortController()
  const until = AbortSignal.any([signal, movedOn.signal])
  let taken = { acknowledged: 0, bytes: 0 }
  const progress = setInterval(() => {
    end.transfer({ phase: 'progress', transport, ...taken }, until, 'session').catch((err: unknown) => {
      if (isRefusal(err)) movedOn.abort(err)
    })
  }, PROGRESS_INTERVAL_MS)
  let payload: Payload
  try {
    const onTaken = (now: typeof taken) => (taken = now)
    payload = await edges.receiveFrames(peer, { maxBytes, windowBytes, signal: until, onTaken })
  } catch (err) {
    signal.throwIfAborted()
    if (movedOn.signal.aborted) throw movedOn.signal.reason
    const why = err instanceof EdgeError ? err : new EdgeError('stalled', String(err), { cause: err })
    if (!OWN.has(why.failure)) throw new BrokenSession(why)
    await end.fail(why, transport)
    throw why
  } finally {
    clearInterval(progress)
  }
  try {
    const elapsed_ms = Math.round(performance.now() - startedAt)
    const sent = { bytes: payload.sizeBytes, sha256: payload.sha256, elapsed_ms }
    throwIfFailed(await end.transfer({ phase: 'end', transport, ...sent }, signal, 'session'))
    return payload
  } catch (err) {
    payload[Symbol.dispose]()
    throw err
  }
}

/**
 * Waits for the platform to start another attempt after a broken session. The producer may be lost or have failed,
 * while the consumer keeps its slot and its model. Reports the failure if no new attempt follows.
 */
export async function untilMovedOn(
  end: EdgeEnd,
  { offer, why }: { offer: EdgeOffer; why: EdgeError },
  signal: AbortSignal,
): Promise<void> {
  const { attempt } = end.at
  for (const since = performance.now(); ;) {
    const answer = await end.negotiate(offer, { isImmediate: true, signal })
    if (end.at.attempt !== attempt || answer.state === 'failed' || answer.release) return
    const isWhole = answer.size_bytes !== null
    if (performance.now() - since > (isWhole ? NEW_ATTEMPT_TIMEOUT_MS : BROKEN_SESSION_TIMEOUT_MS)) {
      await end.fail(why, 'direct')
      throw why
    }
    await sleep(RETRY_DELAY_MS, undefined, { signal })
  }
}
