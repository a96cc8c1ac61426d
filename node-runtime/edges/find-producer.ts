import { setTimeout as sleep } from 'node:timers/promises'
import type { Edges } from './edges.ts'
import type { EdgePeer } from './pinned-client.ts'
import { type Probe, probeCandidates } from './probe.ts'

/** Longer than any probe, so that every kind of failure takes the same time. */
const UNREACHABLE_TIMEOUT_MS = 2_500

export interface ProducerLookup {
  probes: Omit<Probe, 'error'>[]
  /** The reachable candidate with the shortest round trip; undefined if none answered. */
  nearest: Probe | undefined
}

/**
 * Tries the candidates that this node may connect to. A producer can see when its consumer gives up, and could use that
 * to scan the consumer's network. So neither the time nor the result may depend on why a candidate is unreachable.
 */
export async function findProducer(
  edges: Pick<Edges, 'allowed'>,
  peer: Omit<EdgePeer, 'url'>,
  { urls, signal }: { urls: readonly string[]; signal: AbortSignal },
): Promise<ProducerLookup> {
  const failsAt = performance.now() + UNREACHABLE_TIMEOUT_MS
  const probes = await probeCandidates(peer, await edges.allowed(urls, peer.spkiSha256), { signal })
  const nearest = probes.filter(({ ok }) => ok).toSorted((a, b) => (a.rtt_ms ?? 0) - (b.rtt_ms ?? 0))[0]
  if (!nearest && urls.length > 0) await sleep(failsAt - performance.now(), undefined, { signal })
  return { probes: probes.map(withoutReason), nearest }
}

const withoutReason = ({ url, ok, rtt_ms }: Probe): Omit<Probe, 'error'> => ({
  url,
  ok,
  ...(rtt_ms !== undefined && { rtt_ms }),
})
