import { setTimeout as sleep } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import { bearer, edgePath, type EdgePeer, pinnedClient } from './pinned-client.ts'

const PROBE_TIMEOUT_MS = 2_000
const MAX_PROBES = 8
/** How long other candidates may still answer after the first, in case one has a shorter round trip. */
const LATE_PROBE_TIMEOUT_MS = 100

/** The result of trying a candidate, as reported to the platform. */
export interface Probe {
  url: string
  ok: boolean
  rtt_ms?: number
  error?: string
}

/**
 * Tries all candidates of a producer at once with its ticket, each for at most 2 s. Gives up on the others soon after
 * one has answered, so that unreachable candidates cause no delay.
 */
export async function probeCandidates(
  peer: Omit<EdgePeer, 'url'>,
  urls: readonly string[],
  { timeoutMs = PROBE_TIMEOUT_MS, signal }: { timeoutMs?: number; signal?: AbortSignal } = {},
): Promise<Probe[]> {
  const over = new AbortController()
  const either = signal ? AbortSignal.any([signal, over.signal]) : over.signal
  let rest: Promise<void> | undefined
  const probes = await Promise.all(
    urls.slice(0, MAX_PROBES).map(async (url): Promise<Probe> => {
      try {
        const rtt_ms = await roundTrip({ ...peer, url }, timeoutMs, either)
        rest ??= sleep(LATE_PROBE_TIMEOUT_MS).then(() => over.abort())
        return { url, ok: true, rtt_ms }
      } catch (err) {
        return { url, ok: false, error: (err as Error).message.slice(0, 200) }
      }
    }),
  )
  await rest
  return probes
}

/** Returns the time between a request and its response, excluding connection setup. */
async function roundTrip(peer: EdgePeer, timeoutMs: number, signal?: AbortSignal): Promise<number> {
  const over = new AbortController()
  const client = pinnedClient(peer, { timeout: timeoutMs, signal: over.signal })
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  const leave = () => reject(new Error('cancelled'))
  signal?.addEventListener('abort', leave)
  let sentAt = 0
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart: () => void (sentAt = performance.now()),
    onResponseStart(_controller, status) {
      if (status < 200) return
      if (status === 200) resolve(performance.now() - sentAt)
      else reject(new Error(`answered ${status}`))
    },
    onResponseData() {},
    onResponseEnd() {},
    onResponseError: (_controller, err) => reject(err),
  }
  try {
    client.dispatch({ method: 'HEAD', path: edgePath(peer), headers: bearer(peer) }, handler)
    return await promise
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', leave)
    over.abort()
    await client.destroy()
  }
}
