import { setTimeout as sleep } from 'node:timers/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { Agreement, EdgeNegotiated, EdgeOffer } from '../../schemas/cohort-edge.ts'
import type { IncomingEdge } from '../../schemas/cohort-stage.ts'
import type { EdgeFailure } from '../../schemas/cohort-vocabulary.ts'
import { checkPayload } from '../edges/check-payload.ts'
import type { Edges, PayloadSource } from '../edges/edges.ts'
import type { Payload } from '../edges/payload.ts'
import type { EdgePeer } from '../edges/pinned-client.ts'
import { probeCandidates } from '../edges/probe.ts'
import { type EdgeCaller, EdgeEnd, isRefusal, pauseAfter, reasonOf, throwIfFailed } from './edge-end.ts'

/** The platform counts an attempt as lost that says nothing for 10 s. */
const PROGRESS_MS = 2_000
/** How long a broken session is left to the platform, while its producer has a payload and while it makes one. */
const HELD_MS = 5_000
const WORKING_MS = 60_000
const ASK_AGAIN_MS = 1_000

/** A representation that has been verified and consumed; its file goes when it is disposed. */
export interface ReceivedPayload extends Disposable {
  readonly edge: IncomingEdge
  readonly payload: Payload
  readonly agreed: Agreement
}

export interface Received {
  /** Undefined for a hand-over that was closed. */
  received: ReceivedPayload | undefined
  /** True when the stage needs no further hand-over. */
  mayRun: boolean
}

/** Waits for the payload of a hand-over, fetches it by the agreed way, verifies it, and consumes it. */
export async function receivePayload(
  caller: EdgeCaller & { edges: Edges },
  edge: IncomingEdge,
  signal: AbortSignal,
): Promise<Received> {
  const { edges } = caller
  const end = new EdgeEnd(caller, 'consumer', edge)
  const offer = offerOf(edge, edges)
  for (;;) {
    const answer = await end.negotiate(offer, { signal })
    throwIfFailed(answer)
    if (answer.release) return { received: undefined, mayRun: false }
    const { agreed } = answer
    let payload: Payload | undefined
    try {
      if (agreed) payload = await bringPayload(end, { ...answer, agreed }, edges, signal)
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

type Agreed = EdgeNegotiated & { agreed: Agreement }

/** Returns the payload once it is on this node; undefined while the other side has still something to do. */
export async function bringPayload(
  end: EdgeEnd,
  answer: Agreed,
  edges: Edges,
  signal: AbortSignal,
): Promise<Payload | undefined> {
  switch (answer.agreed.transport) {
    case 'inline':
      return answer.inline === null ? undefined : writeInline(answer.inline, edges)
    case 'local':
      return answer.state === 'transferred' ? heldHere(end, edges) : undefined
    case 'direct':
    case 'relay':
      return connect(end, answer, edges, signal)
    case 'engine':
      throw new EdgeError('refused', 'this node has no engine that hands over by itself')
  }
}

async function writeInline(inline: string, { store }: Edges): Promise<Payload> {
  const bytes = Buffer.from(inline, 'base64')
  await using writer = await store.write({ sizeBytes: bytes.length })
  await writer.write(bytes)
  return await writer.finish()
}

/** The producer was on this node; its payload stays held until the platform releases it. */
function heldHere({ at }: EdgeEnd, { store }: Edges): Payload {
  const { path, sizeBytes, sha256 } = store.find(at) ?? gone()
  return { path, sizeBytes, sha256, [Symbol.dispose]: () => {} }
}

function gone(): never {
  throw new EdgeError('payload_gone', 'the payload is no longer on this node')
}

/** Fetches the payload from its producer, or from the object store where that cannot be reached. */
async function connect(
  end: EdgeEnd,
  answer: Agreed,
  edges: Edges,
  signal: AbortSignal,
): Promise<Payload | undefined> {
  const met = await end.rendezvous({}, signal)
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
  const probes = await probeCandidates(
    peer,
    candidates.map(({ url }) => url),
    { signal },
  )
  const nearest = probes.filter(({ ok }) => ok).toSorted((a, b) => (a.rtt_ms ?? 0) - (b.rtt_ms ?? 0))[0]
  throwIfFailed(await end.rendezvous({ probes, selected: nearest?.url ?? null }, signal))
  if (!nearest) return undefined
  if (answer.agreed.mode === 'session')
    return takeFrames(end, answer.agreed, { peer: { ...peer, url: nearest.url }, edges, signal })
  const source: PayloadSource = { transport: 'direct', peer: { ...peer, url: nearest.url } }
  return fetch(end, answer, { source, edges, signal })
}

async function fetch(
  end: EdgeEnd,
  { agreed, size_bytes, sha256 }: Agreed,
  { source, edges, signal }: { source: PayloadSource; edges: Edges; signal: AbortSignal },
): Promise<Payload> {
  const { transport } = source
  const startedAt = performance.now()
  throwIfFailed(await end.transfer({ phase: 'begin', transport }, signal))
  const progress = setInterval(
    () => void end.transfer({ phase: 'progress', transport }, signal).catch(() => {}),
    PROGRESS_MS,
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

/** The connection of a session has ended before its last frame. */
class BrokenSession extends Error {
  override readonly name = 'BrokenSession'
  readonly why: EdgeError

  constructor(why: EdgeError) {
    super(why.message, { cause: why })
    this.why = why
  }
}

/** What a consumer finds out by itself, which no other attempt of the producer changes. */
const OWN: ReadonlySet<EdgeFailure> = new Set(['no_room', 'size_mismatch', 'digest_mismatch'])

/** Takes a payload as frames, while its producer makes it. */
async function takeFrames(
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
  }, PROGRESS_MS)
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
 * Waits for the platform to begin another attempt in place of one whose session is broken: the producer may be lost, or
 * have failed, and its consumer keeps its place and its model meanwhile. Tells the failure when nothing follows.
 */
async function untilMovedOn(
  end: EdgeEnd,
  { offer, why }: { offer: EdgeOffer; why: EdgeError },
  signal: AbortSignal,
): Promise<void> {
  const { attempt } = end.at
  for (const since = performance.now(); ;) {
    const answer = await end.negotiate(offer, { waitMs: 0, signal })
    if (end.at.attempt !== attempt || answer.state === 'failed' || answer.release) return
    const isWhole = answer.size_bytes !== null
    if (performance.now() - since > (isWhole ? HELD_MS : WORKING_MS)) {
      await end.fail(why, 'direct')
      throw why
    }
    await sleep(ASK_AGAIN_MS, undefined, { signal })
  }
}

/** Consumes a payload that is what was agreed; another one is refused with the reason. */
async function consume(
  end: EdgeEnd,
  { edge: { space }, payload, agreed }: Omit<ReceivedPayload, typeof Symbol.dispose>,
  signal: AbortSignal,
): Promise<boolean> {
  const { sizeBytes, sha256 } = payload
  const fingerprint = agreed.space_fingerprint
  const taken = { bytes: sizeBytes, sha256, space_fingerprint: fingerprint }
  try {
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
