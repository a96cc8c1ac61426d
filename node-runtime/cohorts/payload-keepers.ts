import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { Logger } from '../../platform/log.ts'
import { type EdgeNegotiated, type EdgeOffer, INLINE_BYTES } from '../../schemas/cohort-edge.ts'
import type { OutgoingEdge } from '../../schemas/cohort-stage.ts'
import type { Dtype } from '../../schemas/cohort-vocabulary.ts'
import { ControlError } from '../control/client.ts'
import type { Edges } from '../edges/edges.ts'
import { type FrameSource, wholeSource } from '../edges/growing-payload.ts'
import type { EdgeAttempt, Payload } from '../edges/payload.ts'
import { emit } from '../events.ts'
import { type EdgeCaller, EdgeEnd, isRefusal, pauseAfter } from './edge-end.ts'

/** The time for which a payload stays after the last answer of the platform. */
const HOLD_MS = 120_000
/** The pause before a failed attempt is asked about again; the platform begins the next one. */
const FAILED_PAUSE_MS = 500
const BEGIN_WITHIN_MS = 60_000
/** The interval at which the platform is told that a payload is still on its way to the object store. */
const SIGN_MS = 10_000

/** A payload that a stage has produced. */
export interface Produced {
  payload: Payload
  encoding: 'safetensors' | 'llama-state'
  shape?: number[] | undefined
  dtype?: Dtype | undefined
}

/** A payload that a stage is making. */
export interface InMaking {
  source: FrameSource
  encoding: Produced['encoding']
}

interface Kept {
  offer: EdgeOffer
  /** The frames that the consumer of a session is sent. */
  source: FrameSource
  /** Undefined until it is whole. */
  payload: Payload | undefined
  /** Aborted when the platform says that nobody waits any more. */
  over: AbortSignal
}

/** The producer's end of an edge, for as long as this node keeps or makes its payload. */
interface Keeping {
  end: EdgeEnd
  over: AbortController
  /** Set while the payload is being made: ends the offer, and leaves what has been opened for `keep`. */
  takeOver?: AbortController
  /** The attempt whose consumer takes frames. */
  streamed: number
  /** Resolves once this node does nothing more for it. */
  done: Promise<void>
}

/** Keeps what the stages of this node hand over, for as long as the platform may ask for it again. */
export class PayloadKeepers implements AsyncDisposable {
  readonly #edges: Edges
  readonly #log: Logger
  readonly #stopping = new AbortController()
  readonly #kept = new Map<string, Keeping>()

  constructor(edges: Edges, log: Logger) {
    this.#edges = edges
    this.#log = log
  }

  /**
   * Offers a payload that is being made to a consumer that takes it as frames; any other waits until it is whole. `keep`
   * goes on from there; without that, all ends when this is disposed.
   */
  async offer(caller: EdgeCaller, edge: OutgoingEdge, making: InMaking): Promise<AsyncDisposable> {
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

  /** Tells the platform about a payload, and keeps it from then on. */
  async keep(caller: EdgeCaller, edge: OutgoingEdge, produced: Produced, signal: AbortSignal): Promise<void> {
    const offered = await this.#takeOver(edge.edge_id)
    const keeping = offered ?? this.#begin(edge, new EdgeEnd(caller, 'producer', edge))
    const { end, over } = keeping
    try {
      const offer = await stated(edge, produced, {
        server: await this.#edges.server(),
        isOffered: offered !== undefined,
      })
      const { payload } = produced
      this.#edges.store.hold(payload, end.at, HOLD_MS)
      const kept = { offer, source: wholeSource(payload), payload, over: over.signal }
      const answer = await end.negotiate(offer, {
        isImmediate: true,
        signal: AbortSignal.any([signal, over.signal]),
        onAttempt: () => this.#edges.store.hold(payload, end.at, HOLD_MS),
      })
      keeping.done = this.#keepUntilReleased(keeping, { ...kept, payload }, answer)
    } catch (err) {
      await this.#edges.release(end.at)
      this.#forget(keeping)
      throw err
    }
  }

  /** Ends what is kept for this attempt of an edge, or an earlier one, because nobody will ask for it again. */
  release({ edgeId, attempt }: EdgeAttempt): void {
    const kept = this.#kept.get(edgeId)
    if (kept && kept.end.at.attempt <= attempt) kept.over.abort()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort()
    await Promise.all([...this.#kept.values()].map(({ done }) => done))
  }

  #begin({ edge_id }: OutgoingEdge, end: EdgeEnd): Keeping {
    const keeping = { end, over: new AbortController(), streamed: 0, done: Promise.resolve() }
    this.#kept.set(edge_id, keeping)
    return keeping
  }

  #forget(keeping: Keeping): void {
    const { edgeId } = keeping.end
    if (this.#kept.get(edgeId) === keeping) this.#kept.delete(edgeId)
  }

  /** Ends what an earlier work on the same stage has left here, so that it says nothing after its successor. */
  async #giveUp(edgeId: string): Promise<void> {
    const before = this.#kept.get(edgeId)
    if (!before) return
    before.over.abort()
    await before.done
    this.#forget(before)
  }

  /** Ends the offer of a payload that was being made, and returns its end of the edge; gives up any other. */
  async #takeOver(edgeId: string): Promise<Keeping | undefined> {
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

  /** Waits for a consumer that takes frames, at this attempt and at those after it. */
  async #offerWhileMade(keeping: Keeping, kept: Kept, takenOver: AbortSignal): Promise<void> {
    const { end } = keeping
    const ending = AbortSignal.any([this.#stopping.signal, kept.over])
    const signal = AbortSignal.any([ending, takenOver])
    try {
      for (;;) {
        const answer = await this.#ask(end, kept, signal)
        if (answer.release) break
        if (answer.state === 'failed') await sleep(FAILED_PAUSE_MS, undefined, { signal })
        else if (answer.proceed && isUnderWay(answer)) {
          // A payload that does not go as frames goes once it is whole.
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
    keeping: Keeping,
    kept: Kept & { payload: Payload },
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

  async #serve(keeping: Keeping, kept: Kept & { payload: Payload }, first: EdgeNegotiated): Promise<void> {
    const { store } = this.#edges
    const { end } = keeping
    const { payload } = kept
    const signal = AbortSignal.any([this.#stopping.signal, kept.over])
    for (let answer = first; !answer.release; answer = await this.#ask(end, kept, signal)) {
      if (!store.renew(end.at, HOLD_MS) && !store.holds(payload)) {
        // It has made room for others, and only who needs it once more has to know.
        if (needsPayload(answer)) return await end.fail(goneError(), answer.agreed?.transport ?? 'direct')
        await pauseAfter(answer, signal)
        continue
      }
      if (store.find(end.at) === undefined) store.hold(payload, end.at, HOLD_MS)
      if (answer.state === 'consumed') store.consumed(end.at)
      if (answer.state === 'failed') await sleep(FAILED_PAUSE_MS, undefined, { signal })
      else if (answer.proceed && isUnderWay(answer)) await this.#hand(keeping, kept, answer, signal)
      else await pauseAfter(answer, signal)
    }
  }

  /** Asks until the platform answers; a payload is not dropped because no gateway could be reached for a while. */
  async #ask(end: EdgeEnd, { offer, payload }: Kept, signal: AbortSignal): Promise<EdgeNegotiated> {
    const { store } = this.#edges
    // A consumer on this node looks for it as soon as the platform has the offer.
    const onAttempt = () => payload && store.hold(payload, end.at, HOLD_MS)
    for (;;) {
      try {
        return await end.negotiate(offer, { signal, onAttempt })
      } catch (err) {
        if (isRefusal(err) || signal.aborted) throw err
        await sleep(FAILED_PAUSE_MS, undefined, { signal })
      }
    }
  }

  /** Opens the agreed way to the consumer, unless the attempt has ended meanwhile. */
  async #hand(keeping: Keeping, kept: Kept, answer: EdgeNegotiated, signal: AbortSignal): Promise<void> {
    try {
      await this.#open(keeping, kept, answer, signal)
    } catch (err) {
      if (!(err instanceof ControlError) || err.details['attempt'] === undefined) throw err
      await sleep(FAILED_PAUSE_MS, undefined, { signal })
    }
  }

  async #open(
    keeping: Keeping,
    { source, payload }: Kept,
    { agreed }: EdgeNegotiated,
    signal: AbortSignal,
  ): Promise<void> {
    const { end } = keeping
    if (agreed?.transport === 'direct') {
      const server = await this.#edges.server()
      // A session is begun once: another one would take the place of that which the consumer may have joined.
      if (!server || keeping.streamed === end.at.attempt) return
      const said = { candidates: server.candidates, spki_sha256: server.spkiSha256 }
      const { ticket_sha256: ticketSha256 } = await end.rendezvous(said, signal)
      if (ticketSha256 === undefined) return
      if (agreed.mode === 'session') {
        keeping.streamed = end.at.attempt
        await this.#edges.sendFrames(end.at, source, agreed.window_bytes)
      }
      server.admit(end.at, { ticketSha256, beginWithinMs: BEGIN_WITHIN_MS })
    } else if (agreed?.transport === 'relay' && payload) {
      const { relay } = await end.rendezvous({}, signal)
      if (relay?.put_url === undefined) return
      // The consumer counts the time for which it hears nothing of this node.
      const sign = setInterval(() => void end.rendezvous({}, signal).catch(() => {}), SIGN_MS)
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

const goneError = () => new EdgeError('payload_gone', 'the payload has made room for others on its node')

const isUnderWay = ({ state }: EdgeNegotiated): boolean => state === 'negotiated' || state === 'connecting'

/** Returns the offer of a producer whose payload is not whole yet. */
const unstated = (
  { space_fingerprint, max_bytes }: OutgoingEdge,
  encoding: Produced['encoding'],
  server: object | undefined,
): EdgeOffer => ({
  modes: ['session', 'transfer'],
  transports: ['local', ...(server ? (['direct'] as const) : []), 'relay'],
  encodings: [encoding],
  digests: ['sha256'],
  space_fingerprint,
  max_bytes,
})

/** Returns its offer once the payload is whole: it is held then, and goes as one. */
async function stated(
  edge: OutgoingEdge,
  { payload, encoding, shape, dtype }: Produced,
  { server, isOffered }: { server: object | undefined; isOffered: boolean },
): Promise<EdgeOffer> {
  const { sizeBytes, sha256, path } = payload
  const offer = unstated(edge, encoding, server)
  // A payload that is on its way already does not change to another way.
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
