import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EdgeConsumed, EdgeNegotiated } from '../../schemas/cohort-edge.ts'
import type { IncomingEdge } from '../../schemas/cohort-stage.ts'
import { type ControlClient, ControlError } from '../control/client.ts'
import { EdgeError } from './edge-error.ts'

/** The longest wait of one call; the gateway answers sooner when there is news. */
const WAIT_MS = 10_000
/** The largest value that travels in a row. */
const INLINE_BYTES = 64 * 1024

interface Receiver {
  control: ControlClient
  cohortId: string
  leaseToken: string
}

/** A value that has been consumed; undefined for a hand-over that was closed. */
export interface Received {
  value: { edge: IncomingEdge; value: unknown } | undefined
  /** True when the stage needs no further hand-over. */
  mayRun: boolean
}

/** Waits for the value of a hand-over, checks its digest, and consumes it. */
export async function receiveValue(
  { control, cohortId, leaseToken }: Receiver,
  edge: IncomingEdge,
  signal: AbortSignal,
): Promise<Received> {
  const place = { cohortId, edgeId: edge.edge_id }
  let { attempt } = edge
  for (;;) {
    const answer = await negotiate(control, place, offerOf(edge, attempt, leaseToken), signal)
    if (typeof answer === 'number') {
      attempt = answer
      continue
    }
    if (answer.release) return { value: undefined, mayRun: false }
    if (answer.state === 'failed')
      throw new EdgeError(answer.failure ?? 'expired', `the hand-over failed: ${answer.failure ?? 'expired'}`)
    if (answer.inline !== null && answer.sha256 !== null) {
      const bytes = Buffer.from(answer.inline, 'base64')
      const sha256 = hash('sha256', bytes, 'hex')
      const isWhole = sha256 === answer.sha256
      const { stage_may_run } = await control.edge<EdgeConsumed>(
        'consume',
        place,
        {
          attempt,
          lease_token: leaseToken,
          outcome: isWhole ? 'consumed' : 'refused',
          bytes: bytes.length,
          sha256,
          space_fingerprint: edge.space_fingerprint,
          ...(!isWhole && { failure: 'digest_mismatch' }),
        },
        { signal },
      )
      if (!isWhole) throw new EdgeError('digest_mismatch', 'the value of a hand-over has another digest')
      return { value: { edge, value: JSON.parse(bytes.toString()) }, mayRun: stage_may_run }
    }
    if (answer.retry_after_ms !== undefined) await sleep(answer.retry_after_ms, undefined, { signal })
  }
}

const offerOf = ({ space_fingerprint }: IncomingEdge, attempt: number, leaseToken: string) => ({
  attempt,
  lease_token: leaseToken,
  role: 'consumer',
  wait_ms: WAIT_MS,
  offer: {
    modes: ['transfer'],
    transports: ['inline'],
    encodings: ['json'],
    digests: ['sha256'],
    space_fingerprint,
    max_bytes: INLINE_BYTES,
  },
})

/** Returns the answer, or the number of the attempt that the hand-over is at by now. */
async function negotiate(
  control: ControlClient,
  place: { cohortId: string; edgeId: string },
  body: object,
  signal: AbortSignal,
): Promise<EdgeNegotiated | number> {
  try {
    return await control.edge<EdgeNegotiated>('negotiate', place, body, { signal })
  } catch (err) {
    const current = err instanceof ControlError && err.status === 409 ? err.details['attempt'] : undefined
    if (typeof current === 'number' && current > (body as { attempt: number }).attempt) return current
    throw err
  }
}
