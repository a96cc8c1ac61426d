import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { EdgeNegotiated, EdgeOffer } from '../../schemas/cohorts/edge.ts'
import type { IncomingEdge } from '../../schemas/cohorts/stage.ts'
import { EdgeEnd, pauseAfter, throwIfFailed } from './edge-end.ts'
import { bringPayload, type Receiver, type EdgeReception } from './receive-payload.ts'

/** The size limit of a result; a value is part of one. */
const MAX_BYTES = 64 * 1024 * 1024

/** A consumed value; `value` is undefined if the hand-over was closed. */
export interface ValueReception {
  value: { edge: IncomingEdge; value: unknown } | undefined
  /** True if the stage needs no further hand-over. */
  mayRun: boolean
  /** Resolves once the platform has recorded the consumption; undefined if it already has. */
  consumption?: Promise<unknown>
}

/**
 * Waits for the value of a hand-over, inline or from the object store, checks its digest, and consumes it. With
 * `isEarly`, an inline value is returned while its consumption is still being recorded, which saves milliseconds. A
 * value from the object store may have been replaced during the download, and is then fetched again.
 */
export async function receiveValue(
  caller: Receiver,
  edge: IncomingEdge,
  { signal, isEarly = false }: { signal: AbortSignal; isEarly?: boolean },
): Promise<ValueReception> {
  const end = new EdgeEnd(caller, 'consumer', edge)
  const offer = offerOf(edge)
  for (;;) {
    const answer = await end.negotiate(offer, { signal })
    throwIfFailed(answer)
    if (answer.release) return { value: undefined, mayRun: false }
    try {
      const taken = await consumeValue(end, answer, edge, { caller, offer, signal, isEarly })
      if (taken) return taken
    } catch (err) {
      if (!end.hasMovedOn(err)) throw err
      continue
    }
    await pauseAfter(answer, signal)
  }
}

/** Consumes a value once it is available. */
async function consumeValue(
  end: EdgeEnd,
  answer: EdgeNegotiated,
  edge: IncomingEdge,
  receiving: EdgeReception & { isEarly: boolean },
): Promise<ValueReception | undefined> {
  const bytes = await bytesOf(end, answer, receiving)
  if (bytes === undefined) return undefined
  const sha256 = hash('sha256', bytes, 'hex')
  const isWhole = sha256 === answer.sha256
  const taken = { bytes: bytes.length, sha256, space_fingerprint: edge.space_fingerprint }
  const consumption = end.consume(
    isWhole
      ? { outcome: 'consumed', ...taken }
      : { outcome: 'refused', ...taken, failure: 'digest_mismatch' },
    receiving.signal,
  )
  const value = () => ({ edge, value: JSON.parse(bytes.toString()) as unknown })
  if (isWhole && receiving.isEarly && answer.inline !== null) {
    // The receiver may await other hand-overs first; avoid an unhandled rejection until then.
    consumption.catch(() => {})
    return { value: value(), mayRun: false, consumption }
  }
  const { stage_may_run } = await consumption
  if (!isWhole) throw new EdgeError('digest_mismatch', 'the value of a hand-over does not match its digest')
  return { value: value(), mayRun: stage_may_run }
}

const offerOf = ({ space_fingerprint, max_bytes }: IncomingEdge): EdgeOffer => ({
  modes: ['transfer'],
  transports: ['inline', 'relay'],
  encodings: ['json'],
  digests: ['sha256'],
  space_fingerprint,
  max_bytes: Math.min(max_bytes, MAX_BYTES),
})

/** Returns the bytes of a value; undefined while they are not available yet. */
async function bytesOf(
  end: EdgeEnd,
  answer: EdgeNegotiated,
  receiving: EdgeReception,
): Promise<Buffer | undefined> {
  const { agreed, inline } = answer
  if (inline !== null) return Buffer.from(inline, 'base64')
  if (agreed?.transport !== 'relay') return undefined
  using payload = await bringPayload(end, { ...answer, agreed }, receiving)
  return payload && readFile(payload.path)
}
