import { hash } from 'node:crypto'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { type EdgeOffer, INLINE_BYTES } from '../../schemas/cohort-edge.ts'
import type { IncomingEdge } from '../../schemas/cohort-stage.ts'
import { type EdgeCaller, EdgeEnd, pauseAfter, throwIfFailed } from './edge-end.ts'

/** A value that has been consumed; undefined for a hand-over that was closed. */
export interface Received {
  value: { edge: IncomingEdge; value: unknown } | undefined
  /** True when the stage needs no further hand-over. */
  mayRun: boolean
}

/** Waits for the value of a hand-over, checks its digest, and consumes it. */
export async function receiveValue(
  caller: EdgeCaller,
  edge: IncomingEdge,
  signal: AbortSignal,
): Promise<Received> {
  const end = new EdgeEnd(caller, 'consumer', edge)
  const offer = offerOf(edge)
  for (;;) {
    const answer = await end.negotiate(offer, { signal })
    throwIfFailed(answer)
    if (answer.release) return { value: undefined, mayRun: false }
    if (answer.inline !== null && answer.sha256 !== null) {
      const bytes = Buffer.from(answer.inline, 'base64')
      const sha256 = hash('sha256', bytes, 'hex')
      const isWhole = sha256 === answer.sha256
      const taken = { bytes: bytes.length, sha256, space_fingerprint: edge.space_fingerprint }
      const { stage_may_run } = await end.consume(
        isWhole
          ? { outcome: 'consumed', ...taken }
          : { outcome: 'refused', ...taken, failure: 'digest_mismatch' },
        signal,
      )
      if (!isWhole) throw new EdgeError('digest_mismatch', 'the value of a hand-over has another digest')
      return { value: { edge, value: JSON.parse(bytes.toString()) }, mayRun: stage_may_run }
    }
    await pauseAfter(answer, signal)
  }
}

const offerOf = ({ space_fingerprint }: IncomingEdge): EdgeOffer => ({
  modes: ['transfer'],
  transports: ['inline'],
  encodings: ['json'],
  digests: ['sha256'],
  space_fingerprint,
  max_bytes: INLINE_BYTES,
})
