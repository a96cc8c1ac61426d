import { COHORT_LIMITS } from '../../schemas/cohorts/plan.ts'
import type { SpaceKind, Transport } from '../../schemas/cohorts/vocabulary.ts'
import type { GraphEdge } from './graph.ts'
import { isByValue } from './values.ts'

/** The expected bytes of an edge whose producer has never reported a size. */
const BYTES: Readonly<Record<SpaceKind, number>> = {
  text: 4_096,
  json: 4_096,
  media: 1_024,
  tokens: 16_384,
  embedding: 8_192,
  hidden_state: 4 * 2 ** 20,
  kv_cache: 64 * 2 ** 20,
}
/** The time to pass a value through the control plane, as measured on one machine; excludes completing its producer. */
const INLINE_MS = 5
const RTT_MS = 1
const ROUND_TRIPS = 3
/** The assumed rate for a pair that has had no hand-overs yet, in MB per second. */
const ASSUMED_MB_S = 100
/** A relayed payload is uploaded and downloaded, each at about this rate. */
const RELAY_MB_S = 60
const MB = 1e6

/** Returns the measured rate between two nodes in MB per second; undefined without samples. */
export type RateLookup = (fromNode: string, toNode: string) => number | undefined
/** Measured rates in MB per second, by producer and then by consumer. */
export type PairRates = ReadonlyMap<string, ReadonlyMap<string, number>>

export const rateIn =
  (rates: PairRates): RateLookup =>
  (from, to) =>
    rates.get(from)?.get(to)

export interface EdgeCost {
  transport: Transport
  ms: number
  rateMbS: number | null
  rateSource: 'measured' | 'default'
}

export const expectedBytes = (
  { edge_id }: Pick<GraphEdge, 'edge_id'>,
  kind: SpaceKind,
  sizes: Readonly<Record<string, number>>,
): number => (Object.hasOwn(sizes, edge_id) ? sizes[edge_id] : undefined) ?? BYTES[kind]

/**
 * Returns the transports that an edge may use, best first; empty when the graph allows none that its kind supports.
 * Values pass through the control plane, which stores results anyway: in the row, or in the object store when they are
 * large.
 */
export function waysOf(
  { transports, mode }: Pick<GraphEdge, 'transports' | 'mode'>,
  { kind, bytes, allowRelay }: { kind: SpaceKind; bytes: number; allowRelay: boolean },
): Transport[] {
  const inline: Transport[] = bytes <= COHORT_LIMITS.inlineBytes && mode === 'transfer' ? ['inline'] : []
  const relay: Transport[] = allowRelay ? ['relay'] : []
  const ways: Transport[] = isByValue(kind)
    ? [...inline, ...relay]
    : mode === 'session'
      ? ['local', 'direct', ...relay]
      : ['local', ...inline, 'direct', ...relay]
  return transports ? ways.filter((way) => transports.includes(way)) : ways
}

/** Returns the expected cost of a hand-over between two nodes over the best of these transports. */
export function costOfWay(
  ways: readonly Transport[],
  bytes: number,
  [from, to]: readonly [string, string],
  rateOf: RateLookup,
): EdgeCost | undefined {
  const measured = rateOf(from, to)
  const rate = measured ?? ASSUMED_MB_S
  const source = measured === undefined ? 'default' : 'measured'
  for (const transport of ways) {
    switch (transport) {
      case 'local':
        if (from !== to) continue
        return { transport, ms: 0, rateMbS: null, rateSource: 'default' }
      case 'inline':
        return { transport, ms: INLINE_MS, rateMbS: null, rateSource: 'default' }
      case 'direct':
        return {
          transport,
          ms: directMs(bytes, rate),
          rateMbS: rate,
          rateSource: source,
        }
      case 'relay':
        return {
          transport,
          ms: ROUND_TRIPS * RTT_MS + (2_000 * bytes) / MB / RELAY_MB_S,
          rateMbS: RELAY_MB_S,
          rateSource: 'default',
        }
      case 'engine':
        continue
    }
  }
  return undefined
}

const directMs = (bytes: number, mbPerSecond: number): number =>
  ROUND_TRIPS * RTT_MS + (1_000 * bytes) / MB / mbPerSecond

/**
 * Returns a function that computes the time of a hand-over between two nodes over the best of these transports, in
 * milliseconds; infinite if there is none. A search calls it often, so each call looks up only the rate of the pair.
 */
export function timesOf(
  ways: readonly Transport[],
  bytes: number,
  rateOf: RateLookup,
): (fromNode: string, toNode: string) => number {
  const unmeasured = () => undefined
  const near = costOfWay(ways, bytes, ['one', 'one'], unmeasured)
  const far = costOfWay(ways, bytes, ['one', 'another'], unmeasured)
  const [nearMs, farMs] = [near?.ms ?? Infinity, far?.ms ?? Infinity]
  const timeBy = (way: Transport | undefined, ms: number, from: string, to: string) =>
    way === 'direct' ? directMs(bytes, rateOf(from, to) ?? ASSUMED_MB_S) : ms
  return (from, to) =>
    from === to ? timeBy(near?.transport, nearMs, from, to) : timeBy(far?.transport, farMs, from, to)
}
