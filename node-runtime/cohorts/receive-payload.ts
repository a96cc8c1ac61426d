import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { MAPPED } from '../../domain/cohorts/spaces/spaces.ts'
import type { Agreement, EdgeNegotiated, EdgeOffer } from '../../schemas/cohorts/edge.ts'
import type { IncomingEdge } from '../../schemas/cohorts/stage.ts'
import { checkPayload } from '../edges/check-payload.ts'
import type { Edges, PayloadSource } from '../edges/edges.ts'
import { findProducer } from '../edges/find-producer.ts'
import type { Payload } from '../edges/payload.ts'
import { type EdgeCaller, EdgeEnd, pauseAfter, reasonOf, throwIfFailed } from './edge-end.ts'
import { waitForCapacity } from './payload-capacity.ts'
import {
  BrokenSession,
  NEW_ATTEMPT_TIMEOUT_MS,
  PROGRESS_INTERVAL_MS,
  receiveFrames,
  untilMovedOn,
} from './receive-frames.ts'

const MAX_LOCAL_KEYS = 64

/** The stage that receives a hand-over. */
export interface Receiver extends EdgeCaller {
  edges: Edges
  /** Reports whether the stage is waiting for room on its node. */
  waitsForRoom: (isWaiting: boolean) => void
}

/** One hand-over from the receiving stage's side. */
export interface EdgeReception {
  caller: Receiver
  offer: EdgeOffer
  signal: AbortSignal
}

/** A verified, consumed representation. Disposing it removes its file. */
export interface ReceivedPayload extends Disposable {
  readonly edge: IncomingEdge
  readonly payload: Payload
  readonly agreed: Agreement
}

export interface PayloadReception {
  /** Undefined if the hand-over was closed. */
  received: ReceivedPayload | undefined
  /** True if the stage needs no further hand-over. */
  mayRun: boolean
}

/** Waits for the payload of a hand-over, fetches it over the agreed transport, verifies it, and consumes it. */
export async function receivePayload(
  caller: Receiver,
  edge: IncomingEdge,
  signal: AbortSignal,
): Promise<PayloadReception> {
  const end = new EdgeEnd(caller, 'consumer', edge)
  const offer = offerOf(edge, caller.edges)
  for (;;) {
    const answer = await end.negotiate(offer, { signal })
    throwIfFailed(answer)
    if (answer.release) return { received: undefined, mayRun: false }
    const { agreed } = answer
    let payload: Payload | undefined
    try {
      if (agreed) payload = await bringPayload(end, { ...answer, agreed }, { caller, offer, signal })
      if (agreed && payload) {
        const taken = payload
        const mayRun = await consume(end, { edge, payload, agreed }, signal)
        return {
          received: { edge, payload, agreed, [Symbol.dispose]: () => taken[Symbol.dispose]() },
          mayRun,
        }
      }
    } catch (err) {
      payload?.[Symbol.dispose]()
      if (err instanceof BrokenSession) await untilMovedOn(end, { offer, why: err.why }, signal)
      else if (!end.hasMovedOn(err)) throw err
      continue
    }
    await pauseAfter(answer, signal)
  }
}

const offerOf = ({ space_fingerprint, max_bytes }: IncomingEdge, { store }: Edges): EdgeOffer => ({
  modes: ['session', 'transfer'],
  transports: ['inline', 'local', 'direct', 'relay'],
  encodings: ['safetensors', 'llama-state'],
  digests: ['sha256'],
  space_fingerprint,
  max_bytes: Math.min(max_bytes, store.limitBytes),
})

type NegotiatedEdge = EdgeNegotiated & { agreed: Agreement }

/** Returns the payload once it is on this node; undefined while the producer isn't ready. */
export async function bringPayload(
  end: EdgeEnd,
  answer: NegotiatedEdge,
  { caller, offer, signal }: EdgeReception,
): Promise<Payload | undefined> {
  const { edges } = caller
  const { transport } = answer.agreed
  if (transport !== 'local') {
    const sign = async () => throwIfFailed(await end.negotiate(offer, { isImmediate: true, signal }))
    const waiting = { store: edges.store, tell: caller.waitsForRoom, sign, signal }
    // The wait may have outlasted the attempt, so negotiate again.
    if (await waitForCapacity(answer.size_bytes ?? 0, waiting)) return undefined
  }
  switch (transport) {
    case 'inline':
      return answer.inline === null ? undefined : writeInline(answer.inline, edges)
    case 'local':
      return answer.state === 'transferred' ? heldHere(end, edges, signal) : undefined
    case 'direct':
    case 'relay':
      return connect(end, answer, edges, signal)
    case 'engine':
      throw new EdgeError('refused', 'this node has no engine with its own transport')
  }
}

async function writeInline(inline: string, { store }: Edges): Promise<Payload> {
  const bytes = Buffer.from(inline, 'base64')
  await using writer = await store.write({ sizeBytes: bytes.length })
  await writer.write(bytes)
  return await writer.finish()
}

/**
 * Returns a payload that was produced on this node, where it is held until the platform releases it. Its keeper may not
 * know about a new attempt yet, hence the wait.
 */
async function heldHere(end: EdgeEnd, { store }: Edges, signal: AbortSignal): Promise<Payload> {
  const soon = AbortSignal.timeout(NEW_ATTEMPT_TIMEOUT_MS)
  try {
    const { path, sizeBytes, sha256 } = await store.whenHeld(end.at, AbortSignal.any([signal, soon]))
    return { path, sizeBytes, sha256, [Symbol.dispose]: () => {} }
  } catch (err) {
    if (signal.aborted) throw err
    const payloadGone = new EdgeError('payload_gone', 'the payload is no longer on this node', { cause: err })
    await end.fail(payloadGone, 'local')
    throw payloadGone
  }
}

/** Fetches the payload from its producer, or from the object store if the producer can't be reached. */
async function connect(
  end: EdgeEnd,
  answer: NegotiatedEdge,
  edges: Edges,
  signal: AbortSignal,
): Promise<Payload | undefined> {
  const met = await end.rendezvous({ local_keys: (await edges.localKeys()).slice(0, MAX_LOCAL_KEYS) }, signal)
  throwIfFailed(met)
  if (!met.proceed) return undefined
  if (met.transport === 'relay') {
    const url = met.relay?.get_url
    return url === undefined
      ? undefined
      : fetch(end, answer, { source: { transport: 'relay', url }, edges, signal })
  }
  const { candidates, spki_sha256: spkiSha256, ticket } = met
  if (!candidates || spkiSha256 === undefined || ticket === undefined) return undefined
  const peer = { ...end.at, spkiSha256, ticket }
  const urls = candidates.map(({ url }) => url)
  const { probes, nearest } = await findProducer(edges, peer, { urls, signal })
  throwIfFailed(await end.rendezvous({ probes, selected: nearest?.url ?? null }, signal))
  if (!nearest) return undefined
  if (answer.agreed.mode === 'session')
    return receiveFrames(end, answer.agreed, { peer: { ...peer, url: nearest.url }, edges, signal })
  const source: PayloadSource = { transport: 'direct', peer: { ...peer, url: nearest.url } }
  return fetch(end, answer, { source, edges, signal })
}

async function fetch(
  end: EdgeEnd,
  { agreed, size_bytes, sha256 }: NegotiatedEdge,
  { source, edges, signal }: { source: PayloadSource; edges: Edges; signal: AbortSignal },
): Promise<Payload> {
  const { transport } = source
  const startedAt = performance.now()
  throwIfFailed(await end.transfer({ phase: 'begin', transport }, signal))
  const progress = setInterval(
    () => void end.transfer({ phase: 'progress', transport }, signal).catch(() => {}),
    PROGRESS_INTERVAL_MS,
  )
  let payload: Payload
  try {
    payload = await edges.receive(end.at, source, {
      maxBytes: agreed.max_bytes,
      signal,
      ...(size_bytes !== null && sha256 !== null && { sizeBytes: size_bytes, sha256 }),
    })
  } catch (err) {
    if (!signal.aborted) await end.fail(err, transport)
    throw err
  } finally {
    clearInterval(progress)
  }
  try {
    const elapsed_ms = Math.round(performance.now() - startedAt)
    const sent = { bytes: payload.sizeBytes, sha256: payload.sha256, elapsed_ms }
    throwIfFailed(await end.transfer({ phase: 'end', transport, ...sent }, signal))
    return payload
  } catch (err) {
    payload[Symbol.dispose]()
    throw err
  }
}

/** Consumes a payload that matches the agreement. Rejects any other payload and reports the reason. */
async function consume(
  end: EdgeEnd,
  { edge: { space, kind }, payload, agreed }: Omit<ReceivedPayload, typeof Symbol.dispose>,
  signal: AbortSignal,
): Promise<boolean> {
  const { sizeBytes, sha256 } = payload
  const fingerprint = agreed.space_fingerprint
  const taken = { bytes: sizeBytes, sha256, space_fingerprint: fingerprint }
  try {
    if (agreed.adapter && !MAPPED.includes(kind))
      throw new EdgeError('refused', `this node applies maps only to ${MAPPED.join(', ')}, not to ${kind}`)
    const encoding = agreed.encoding === 'llama-state' ? 'llama-state' : 'safetensors'
    if (space)
      await checkPayload(payload, { sizeBytes, sha256, fingerprint }, { encoding, fingerprint, space })
  } catch (err) {
    if (!(err instanceof EdgeError)) throw err
    await end
      .consume({ outcome: 'refused', ...taken, failure: err.failure, message: reasonOf(err) }, signal)
      .catch(() => {})
    throw err
  }
  const adapter_sha256 = agreed.adapter?.sha256 ?? null
  const { stage_may_run } = await end.consume({ outcome: 'consumed', ...taken, adapter_sha256 }, signal)
  return stage_may_run
}
