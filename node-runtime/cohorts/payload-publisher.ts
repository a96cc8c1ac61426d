import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { Logger } from '../../platform/log.ts'
import { type EdgeNegotiated, type EdgeOffer, INLINE_BYTES } from '../../schemas/cohorts/edge.ts'
import type { OutgoingEdge } from '../../schemas/cohorts/stage.ts'
import type { Dtype } from '../../schemas/cohorts/vocabulary.ts'
import { ControlError } from '../control/client.ts'
import type { Edges } from '../edges/edges.ts'
import { type FrameSource, wholeSource } from '../edges/growing-payload.ts'
import type { EdgeAttempt, Payload } from '../edges/payload.ts'
import { emit } from '../events.ts'
import { type EdgeCaller, EdgeEnd, isRefusal, pauseAfter } from './edge-end.ts'

/** How long a payload is held after the platform's last response. */
const HOLD_TTL_MS = 120_000
/** The pause before polling again after a failed attempt, while the platform starts the next one. */
const RETRY_DELAY_MS = 500
const BEGIN_TIMEOUT_MS = 60_000
/** How often the node reports that an upload to the object store is still in progress. */
const KEEP_ALIVE_INTERVAL_MS = 10_000

/** A payload that a stage has produced. */
export interface CompletePayload {
  payload: Payload
  encoding: 'safetensors' | 'llama-state'
  shape?: number[] | undefined
  dtype?: Dtype | undefined
}

/** A payload that a stage is still producing. */
export interface UnfinishedPayload {
  source: FrameSource
  encoding: CompletePayload['encoding']
}

interface HeldPayload {
  offer: EdgeOffer
  /** The frames to send to the consumer of a session. */
  source: FrameSource
  /** Undefined until the payload is complete. */
  payload: Payload | undefined
  /** Aborts when the platform reports that no consumer needs the payload any longer. */
  over: AbortSignal
}

/** The producer's end of an edge while this node produces or stores its payload. */
interface ProducerEnd {
  end: EdgeEnd
  over: AbortController
  /** Set while the payload is being produced: ends the offer, but leaves its open connections to `keep`. */
  takeOver?: AbortController
  /** The attempt whose consumer receives frames. */
  streamed: number
  /** Resolves once this node has stopped serving the edge. */
  done: Promise<void>
}

/** Stores and serves the payloads of this node's stages until the platform releases them. */
export class PayloadPublisher implements AsyncDisposable {
  readonly #edges: Edges
  readonly #log: Logger
  readonly #stopping = new AbortController()
  readonly #kept = new Map<string, ProducerEnd>()

  constructor(edges: Edges, log: Logger) {
    this.#edges = edges
    this.#log = log
  }

  /**
   * Offers an unfinished payload to a consumer that accepts frames; other consumers wait until it is complete. `keep`
   * takes over from there. If it is never called, disposing the result ends the offer.
   */
  async offer(caller: EdgeCaller, edge: OutgoingEdge, making: UnfinishedPayload): Promise<AsyncDisposable> {
    await this.#giveUp(edge.edge_id)
    const { source, encoding } = making
    const offer = unstated(edge, encoding, await this.#edges.server())
    const keeping = this.#begin(edge, new EdgeEnd(caller, 'producer', edge))
    const takeOver = new AbortController()
    keeping.takeOver = takeOver
    const kept = { offer, source, payload: undefined, over: keeping.over.signal }
    keeping.done = this.#offerWhileMade(keeping, kept, takeOver.signal)
    return {
      [Symbol.asyncDispose]: async () => {
        if (this.#kept.get(edge.edge_id) === keeping && keeping.takeOver) await this.#giveUp(edge.edge_id)
      },
    }
  }

  /** Offers a complete payload to the platform and stores it from then on. */
  async keep(
    caller: EdgeCaller,
    edge: OutgoingEdge,
    produced: CompletePayload,
    signal: AbortSignal,
  ): Promise<void> {
    const offered = await this.#takeOver(edge.edge_id)
    const keeping = offered ?? this.#begin(edge, new EdgeEnd(caller, 'producer', edge))
    const { end, over } = keeping
    try {
      const offer = await stated(edge, produced, {
        server: await this.#edges.server(),
        isOffered: offered !== undefined,
      })
      const { payload } = produced
      this.#edges.store.hold(payload, end.at, HOLD_TTL_MS)
      const kept = { offer, source: wholeSource(payload), payload, over: over.signal }
      const answer = await end.negotiate(offer, {
        isImmediate: true,
        signal: AbortSignal.any([signal, over.signal]),
        onAttempt: () => this.#edges.store.hold(payload, end.at, HOLD_TTL_MS),
      })
      keeping.done = this.#keepUntilReleased(keeping, { ...kept, payload }, answer)
    } catch (err) {
      await this.#edges.release(end.at)
      this.#forget(keeping)
      throw err
    }
  }

  /** Stops serving this attempt of an edge, or an earlier one, because no consumer will request it again. */
  release({ edgeId, attempt }: EdgeAttempt): void {
    const kept = this.#kept.get(edgeId)
    if (kept && kept.end.at.attempt <= attempt) kept.over.abort()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort()
    await Promise.all([...this.#kept.values()].map(({ done }) => done))
  }

  #begin({ edge_id }: OutgoingEdge, end: EdgeEnd): ProducerEnd {
    const keeping = { end, over: new AbortController(), streamed: 0, done: Promise.resolve() }
    this.#kept.set(edge_id, keeping)
    return keeping
  }

  #forget(keeping: ProducerEnd): void {
    const { edgeId } = keeping.end
    if (this.#kept.get(edgeId) === keeping) this.#kept.delete(edgeId)
  }

  /**
   * Stops what an earlier run of the same stage left behind, so that it can't call the platform after its successor.
   */
  async #giveUp(edgeId: string): Promise<void> {
    const before = this.#kept.get(edgeId)
    if (!before) return
    before.over.abort()
    await before.done
    this.#forget(before)
  }

  /** Ends the offer of an unfinished payload and returns its end of the edge. Gives up anything else on that edge. */
  async #takeOver(edgeId: string): Promise<ProducerEnd | undefined> {
    const keeping = this.#kept.get(edgeId)
    if (!keeping?.takeOver) {
      await this.#giveUp(edgeId)
      return undefined
    }
    keeping.takeOver.abort()
    await keeping.done
    delete keeping.takeOver
    if (!keeping.over.signal.aborted) return keeping
    await this.#edges.release(keeping.end.at)
    this.#forget(keeping)
    return undefined
  }

  /** Waits for a consumer that accepts frames, at this attempt and later ones. */
  async #offerWhileMade(keeping: ProducerEnd, kept: HeldPayload, takenOver: AbortSignal): Promise<void> {
    const { end } = keeping
    const ending = AbortSignal.any([this.#stopping.signal, kept.over])
    const signal = AbortSignal.any([ending, takenOver])
    try {
      for (;;) {
        const answer = await this.#ask(end, kept, signal)
        if (answer.release) break
        if (answer.state === 'failed') await sleep(RETRY_DELAY_MS, undefined, { signal })
        else if (answer.proceed && isUnderWay(answer)) {
          // Any other mode has to wait until the payload is complete.
          if (answer.agreed?.mode !== 'session') return
          await this.#hand(keeping, kept, answer, ending)
        } else await pauseAfter(answer, signal)
      }
    } catch (err) {
      if (!signal.aborted && !isRefusal(err)) emit(this.#log, 'cohort.payload_lost', { err })
    } finally {
      if (!takenOver.aborted) await this.#edges.release(end.at)
    }
  }

  async #keepUntilReleased(
    keeping: ProducerEnd,
    kept: HeldPayload & { payload: Payload },
    answer: EdgeNegotiated,
  ): Promise<void> {
    try {
      await this.#serve(keeping, kept, answer)
    } catch (err) {
      if (!this.#stopping.signal.aborted && !kept.over.aborted && !isRefusal(err))
        emit(this.#log, 'cohort.payload_lost', { err })
    } finally {
      await this.#edges.release(keeping.end.at)
      this.#forget(keeping)
    }
  }

  async #serve(
    keeping: ProducerEnd,
    kept: HeldPayload & { payload: Payload },
    first: EdgeNegotiated,
  ): Promise<void> {
    const { store } = this.#edges
    const { end } = keeping
    const { payload } = kept
    const signal = AbortSignal.any([this.#stopping.signal, kept.over])
    for (let answer = first; !answer.release; answer = await this.#ask(end, kept, signal)) {
      if (!store.renew(end.at, HOLD_TTL_MS) && !store.holds(payload)) {
        // The payload was evicted. That matters only if a consumer still needs it.
        if (needsPayload(answer)) return await end.fail(goneError(), answer.agreed?.transport ?? 'direct')
        await pauseAfter(answer, signal)
        continue
      }
      if (store.find(end.at) === undefined) store.hold(payload, end.at, HOLD_TTL_MS)
      if (answer.state === 'consumed') store.consumed(end.at)
      if (answer.state === 'failed') await sleep(RETRY_DELAY_MS, undefined, { signal })
      else if (answer.proceed && isUnderWay(answer)) await this.#hand(keeping, kept, answer, signal)
      else await pauseAfter(answer, signal)
    }
  }

  /** Negotiates until the platform answers: a gateway outage must not cost us the payload. */
  async #ask(end: EdgeEnd, { offer, payload }: HeldPayload, signal: AbortSignal): Promise<EdgeNegotiated> {
    const { store } = this.#edges
    // A consumer on this node reads the payload as soon as the platform has the offer.
    const onAttempt = () => payload && store.hold(payload, end.at, HOLD_TTL_MS)
    for (;;) {
      try {
        return await end.negotiate(offer, { signal, onAttempt })
      } catch (err) {
        if (isRefusal(err) || signal.aborted) throw err
        await sleep(RETRY_DELAY_MS, undefined, { signal })
      }
    }
  }

  /** Opens the agreed transport to the consumer, unless the attempt has already ended. */
  async #hand(
    keeping: ProducerEnd,
    kept: HeldPayload,
    answer: EdgeNegotiated,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await this.#open(keeping, kept, answer, signal)
    } catch (err) {
      if (!(err instanceof ControlError) || err.details['attempt'] === undefined) throw err
      await sleep(RETRY_DELAY_MS, undefined, { signal })
    }
  }

  async #open(
    keeping: ProducerEnd,
    { source, payload }: HeldPayload,
    { agreed }: EdgeNegotiated,
    signal: AbortSignal,
  ): Promise<void> {
    const { end } = keeping
    if (agreed?.transport === 'direct') {
      const server = await this.#edges.server()
      // Start one session per attempt: a second one would replace the session that the consumer may have joined.
      if (!server || keeping.streamed === end.at.attempt) return
      const address = { candidates: server.candidates, spki_sha256: server.spkiSha256 }
      const { ticket_sha256: ticketSha256 } = await end.rendezvous(address, signal)
      if (ticketSha256 === undefined) return
      if (agreed.mode === 'session') {
        keeping.streamed = end.at.attempt
        await this.#edges.sendFrames(end.at, source, agreed.window_bytes)
      }
      server.admit(end.at, { ticketSha256, beginWithinMs: BEGIN_TIMEOUT_MS })
    } else if (agreed?.transport === 'relay' && payload) {
      const { relay } = await end.rendezvous({}, signal)
      if (relay?.put_url === undefined) return
      // The consumer times out a silent producer.
      const sign = setInterval(() => void end.rendezvous({}, signal).catch(() => {}), KEEP_ALIVE_INTERVAL_MS)
      try {
        await this.#edges.relay(end.at, { url: relay.put_url, headers: relay.headers ?? {} }, signal)
      } catch (err) {
        return end.fail(err, 'relay')
      } finally {
        clearInterval(sign)
      }
      const { sizeBytes: bytes, sha256 } = payload
      await end.transfer({ phase: 'end', transport: 'relay', bytes, sha256 }, signal)
    }
  }
}

const needsPayload = ({ state }: EdgeNegotiated): boolean => state !== 'consumed' && state !== 'failed'

const goneError = () =>
  new EdgeError('payload_gone', 'the producer node evicted the payload to make room for others')

const isUnderWay = ({ state }: EdgeNegotiated): boolean => state === 'negotiated' || state === 'connecting'

/** Returns the offer for a payload that is not complete yet. */
const unstated = (
  { space_fingerprint, max_bytes }: OutgoingEdge,
  encoding: CompletePayload['encoding'],
  server: object | undefined,
): EdgeOffer => ({
  modes: ['session', 'transfer'],
  transports: ['local', ...(server ? (['direct'] as const) : []), 'relay'],
  encodings: [encoding],
  digests: ['sha256'],
  space_fingerprint,
  max_bytes,
})

/** Returns the offer for a complete payload, which is sent in one piece. */
async function stated(
  edge: OutgoingEdge,
  { payload, encoding, shape, dtype }: CompletePayload,
  { server, isOffered }: { server: object | undefined; isOffered: boolean },
): Promise<EdgeOffer> {
  const { sizeBytes, sha256, path } = payload
  const offer = unstated(edge, encoding, server)
  // A payload that has been offered already keeps its transport.
  const isInline = !isOffered && sizeBytes <= INLINE_BYTES && (edge.transports?.includes('inline') ?? true)
  return {
    ...offer,
    modes: ['transfer'],
    transports: [...(isInline ? (['inline'] as const) : []), ...offer.transports],
    size_bytes: sizeBytes,
    sha256,
    shape: shape ?? null,
    dtype: dtype ?? null,
    ...(isInline && { inline: (await readFile(path)).toString('base64') }),
  }
}
