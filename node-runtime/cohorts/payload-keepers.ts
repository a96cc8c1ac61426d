import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../platform/log.ts'
import { type EdgeNegotiated, type EdgeOffer, INLINE_BYTES } from '../../schemas/cohort-edge.ts'
import type { OutgoingEdge } from '../../schemas/cohort-stage.ts'
import type { Dtype } from '../../schemas/cohort-vocabulary.ts'
import { ControlError } from '../control/client.ts'
import type { Edges } from '../edges/edges.ts'
import type { EdgeAttempt, Payload } from '../edges/payload.ts'
import { emit } from '../events.ts'
import { type EdgeCaller, EdgeEnd, pauseAfter } from './edge-end.ts'

/** The time for which a payload stays after the last answer of the platform. */
const HOLD_MS = 120_000
/** The pause before a failed attempt is asked about again; the platform begins the next one. */
const FAILED_PAUSE_MS = 500
const BEGIN_WITHIN_MS = 60_000

/** A payload that a stage has produced. */
export interface Produced {
  payload: Payload
  encoding: 'safetensors' | 'llama-state'
  shape?: number[] | undefined
  dtype?: Dtype | undefined
}

interface Kept {
  offer: EdgeOffer
  produced: Produced
  /** The platform's answer to the first offer. */
  answer: EdgeNegotiated
  /** Aborted when the platform says that nobody waits any more. */
  over: AbortSignal
}

/** Keeps what the stages of this node hand over, for as long as the platform may ask for it again. */
export class PayloadKeepers implements AsyncDisposable {
  readonly #edges: Edges
  readonly #log: Logger
  readonly #stopping = new AbortController()
  readonly #keeping = new Set<Promise<void>>()
  readonly #kept = new Map<string, { end: EdgeEnd; over: AbortController }>()

  constructor(edges: Edges, log: Logger) {
    this.#edges = edges
    this.#log = log
  }

  /** Tells the platform about a payload, and keeps it from then on. */
  async keep(caller: EdgeCaller, edge: OutgoingEdge, produced: Produced, signal: AbortSignal): Promise<void> {
    const end = new EdgeEnd(caller, 'producer', edge)
    const offer = await offerOf(edge, produced, await this.#edges.server())
    this.#edges.store.hold(produced.payload, end.at, HOLD_MS)
    const over = new AbortController()
    const entry = { end, over }
    this.#kept.set(edge.edge_id, entry)
    const forget = () => {
      if (this.#kept.get(edge.edge_id) === entry) this.#kept.delete(edge.edge_id)
    }
    try {
      const answer = await end.negotiate(offer, {
        waitMs: 0,
        signal: AbortSignal.any([signal, over.signal]),
      })
      const keeping = this.#keepUntilReleased(end, { offer, produced, answer, over: over.signal }).finally(
        () => {
          forget()
          this.#keeping.delete(keeping)
        },
      )
      this.#keeping.add(keeping)
    } catch (err) {
      forget()
      await this.#edges.release(end.at)
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
    await Promise.all(this.#keeping)
  }

  async #keepUntilReleased(end: EdgeEnd, kept: Kept): Promise<void> {
    try {
      await this.#serve(end, kept)
    } catch (err) {
      if (!this.#stopping.signal.aborted && !kept.over.aborted && !isOver(err))
        emit(this.#log, 'cohort.payload_lost', { err })
    } finally {
      await this.#edges.release(end.at)
    }
  }

  async #serve(end: EdgeEnd, { offer, produced, answer: first, over }: Kept): Promise<void> {
    const { store } = this.#edges
    const signal = AbortSignal.any([this.#stopping.signal, over])
    for (let answer = first; !answer.release; answer = await this.#ask(end, offer, signal)) {
      // Throws for a payload that has made room for others; the platform tells that to whoever asks for it.
      if (!store.renew(end.at, HOLD_MS)) store.hold(produced.payload, end.at, HOLD_MS)
      if (answer.state === 'consumed') store.consumed(end.at)
      if (answer.state === 'failed') await sleep(FAILED_PAUSE_MS, undefined, { signal })
      else if (answer.proceed && isUnderWay(answer)) await this.#hand(end, { produced, answer }, signal)
      else await pauseAfter(answer, signal)
    }
  }

  /** Asks until the platform answers; a payload is not dropped because no gateway could be reached for a while. */
  async #ask(end: EdgeEnd, offer: EdgeOffer, signal: AbortSignal): Promise<EdgeNegotiated> {
    for (;;) {
      try {
        return await end.negotiate(offer, { signal })
      } catch (err) {
        if (isOver(err) || signal.aborted || !this.#edges.store.find(end.at)) throw err
      }
    }
  }

  /** Opens the agreed way to the consumer, unless the attempt has ended meanwhile. */
  async #hand(end: EdgeEnd, given: Pick<Kept, 'produced' | 'answer'>, signal: AbortSignal): Promise<void> {
    try {
      await this.#open(end, given, signal)
    } catch (err) {
      if (!(err instanceof ControlError) || err.details['attempt'] === undefined) throw err
      await sleep(FAILED_PAUSE_MS, undefined, { signal })
    }
  }

  async #open(
    end: EdgeEnd,
    { produced: { payload }, answer: { agreed } }: Pick<Kept, 'produced' | 'answer'>,
    signal: AbortSignal,
  ): Promise<void> {
    if (agreed?.transport === 'direct') {
      const server = await this.#edges.server()
      if (!server) return
      const said = { candidates: server.candidates, spki_sha256: server.spkiSha256 }
      const { ticket_sha256: ticketSha256 } = await end.rendezvous(said, signal)
      if (ticketSha256 !== undefined) server.admit(end.at, { ticketSha256, beginWithinMs: BEGIN_WITHIN_MS })
    } else if (agreed?.transport === 'relay') {
      const { relay } = await end.rendezvous({}, signal)
      if (relay?.put_url === undefined) return
      try {
        await this.#edges.relay(end.at, { url: relay.put_url, headers: relay.headers ?? {} }, signal)
      } catch (err) {
        return end.fail(err, 'relay')
      }
      const { sizeBytes: bytes, sha256 } = payload
      await end.transfer({ phase: 'end', transport: 'relay', bytes, sha256 }, signal)
    }
  }
}

const isUnderWay = ({ state }: EdgeNegotiated): boolean => state === 'negotiated' || state === 'connecting'

/** The edge is of another stage's lease by now, or its cohort has ended. */
const isOver = (err: unknown): boolean =>
  err instanceof ControlError && (err.status === 404 || err.status === 409)

async function offerOf(
  { transports, space_fingerprint, max_bytes }: OutgoingEdge,
  { payload, encoding, shape, dtype }: Produced,
  server: object | undefined,
): Promise<EdgeOffer> {
  const { sizeBytes, sha256, path } = payload
  const isInline = sizeBytes <= INLINE_BYTES && (transports?.includes('inline') ?? true)
  return {
    modes: ['transfer'],
    transports: [
      ...(isInline ? (['inline'] as const) : []),
      'local',
      ...(server ? (['direct'] as const) : []),
      'relay',
    ],
    encodings: [encoding],
    digests: ['sha256'],
    space_fingerprint,
    max_bytes,
    size_bytes: sizeBytes,
    sha256,
    shape: shape ?? null,
    dtype: dtype ?? null,
    ...(isInline && { inline: (await readFile(path)).toString('base64') }),
  }
}
