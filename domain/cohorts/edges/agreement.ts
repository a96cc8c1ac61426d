import type { Agreement, EdgeOffer } from '../../../schemas/cohorts/edge.ts'
import type { EdgeFailure, EdgeMode, Transport } from '../../../schemas/cohorts/vocabulary.ts'

/** The graph's terms, which apply to every attempt. */
export interface EdgeTerms {
  mode: EdgeMode
  /** The transports that the graph allows; null for all. */
  transports: readonly Transport[] | null
  maxBytes: number
  sourceFingerprint: string
}

/** The offers of both sides, plus what the platform knows about the pair. */
export interface NegotiationContext {
  producer: EdgeOffer
  consumer: EdgeOffer
  isSameNode: boolean
  /** False for a while after the consumer could not reach any address of the producer. */
  isReachable: boolean
  /** The payload is in the row; undefined until there is a payload. */
  isInline: boolean | undefined
}

/** Cheapest first. */
const PREFERENCE: readonly Transport[] = ['inline', 'local', 'engine', 'direct', 'relay']

const DEFAULT_WINDOW = 4_194_304

/**
 * Returns the terms that both sides and the graph allow, or the failure when there are none. Returns undefined while
 * the decision depends on a payload that isn't there yet.
 */
export function agree(
  terms: EdgeTerms,
  parties: NegotiationContext,
): Omit<Agreement, 'adapter'> | EdgeFailure | undefined {
  const { producer, consumer, isReachable } = parties
  const allowed = PREFERENCE.filter(
    (transport) =>
      (terms.transports?.includes(transport) ?? true) &&
      producer.transports.includes(transport) &&
      consumer.transports.includes(transport),
  )
  const possible = allowed.filter((transport) => isPossible(transport, parties))
  // A pair that could not connect retries a direct connection only when there is no other transport.
  const transport = possible.find((other) => isReachable || other !== 'direct') ?? possible[0]
  if (!transport) return parties.isInline === undefined && allowed.includes('inline') ? undefined : 'refused'

  const encoding = producer.encodings.find((one) => consumer.encodings.includes(one))
  const mode = modeOf(terms.mode, transport, parties)
  if (!encoding || !mode) return 'refused'
  return {
    transport,
    mode,
    encoding,
    digest: 'sha256',
    space_fingerprint: terms.sourceFingerprint,
    max_bytes: Math.min(terms.maxBytes, producer.max_bytes, consumer.max_bytes),
    window_bytes: Math.min(producer.window_bytes ?? DEFAULT_WINDOW, consumer.window_bytes ?? DEFAULT_WINDOW),
  }
}

function isPossible(transport: Transport, { isInline, isSameNode }: NegotiationContext): boolean {
  if (transport === 'inline') return isInline ?? false
  return transport !== 'local' || isSameNode
}

/** A session needs a connection; without one its frames are sent as one payload. */
function modeOf(
  wanted: EdgeMode,
  transport: Transport,
  { producer, consumer }: NegotiationContext,
): EdgeMode | undefined {
  const both = (mode: EdgeMode) => producer.modes.includes(mode) && consumer.modes.includes(mode)
  if (wanted === 'session' && transport === 'direct' && both('session')) return 'session'
  return both('transfer') ? 'transfer' : undefined
}
