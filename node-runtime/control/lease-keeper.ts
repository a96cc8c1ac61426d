import type { StatusDetail } from '../../schemas/inference-task.ts'
import { LEASE_SECONDS, type LeaseRenewed, type RoomWait, TERM_PER_PATIENCE } from '../../schemas/lease.ts'
import { type ControlClient, ControlError } from './client.ts'
import { roomlessOf } from './room.ts'

/** A lease that is renewed until it is disposed of; `lost` aborts when it is refused or expires. */
export interface KeptLease extends Disposable {
  readonly lost: AbortSignal
  /** Aborts when an answer says that the work is paused. */
  readonly pausing: AbortSignal
  /** Tells how far the work is. Of reports that come faster than they can be sent, the newest is. */
  report(progress: StatusDetail): void
  /** Reports that the work waits for room, or with null that it no longer does. */
  waitFor(kind: RoomWait | null): void
}

/** The shortest time between two reports. */
const REPORT_INTERVAL_MS = 200

/**
 * Returns the term of a lease under which calls are repeated for so long. It does not end while one of them may still be
 * repeated, up to `MAX_TIMEOUT_S`, beyond which no node is started.
 */
export const leaseSecondsFor = (patienceMs: number): number =>
  Math.min(
    LEASE_SECONDS.maximum,
    Math.max(LEASE_SECONDS.default, Math.ceil((TERM_PER_PATIENCE * patienceMs) / 1_000)),
  )

/** Renews a lease three times per term. Gateways that do not respond are retried until the term is over. */
export function keepLease(control: ControlClient, leaseToken: string, leaseS: number): KeptLease {
  const lost = new AbortController()
  const pausing = new AbortController()
  const over = new AbortController()
  let expiresAt = performance.now() + leaseS * 1000
  let busy = false
  let untold: StatusDetail | undefined
  let wait: RoomWait | null | undefined
  let telling: NodeJS.Timeout | undefined
  let toldAt = -REPORT_INTERVAL_MS

  const tellSoon = () => {
    if (over.signal.aborted || busy || telling || (!untold && wait === undefined)) return
    const pause = Math.max(0, toldAt + REPORT_INTERVAL_MS - performance.now())
    telling = setTimeout(() => {
      telling = undefined
      void renew()
    }, pause)
  }
  const renew = async () => {
    if (busy) return
    busy = true
    const askedAt = performance.now()
    const progress = untold
    untold = undefined
    const waiting = wait
    wait = undefined
    if (progress) toldAt = askedAt
    try {
      const patienceMs = Math.max(0, expiresAt - askedAt)
      const { pause } = await control.lease<LeaseRenewed>(
        'renew',
        leaseToken,
        { lease_s: leaseS, ...(progress && { progress }), ...(waiting !== undefined && { waiting }) },
        { patienceMs, signal: over.signal },
      )
      expiresAt = askedAt + leaseS * 1000
      if (pause) pausing.abort(new Error('the work is paused'))
    } catch (err) {
      if (over.signal.aborted) return
      wait ??= waiting
      if (roomlessOf(err)) {
        // A platform that can record nothing cannot give the work to another node either.
        expiresAt = performance.now() + leaseS * 1000
        return
      }
      const isRefused = err instanceof ControlError && err.status < 500 && err.status !== 429
      if (isRefused || performance.now() >= expiresAt)
        lost.abort(new Error('the lease is not ours any more', { cause: err }))
    } finally {
      busy = false
      tellSoon()
    }
  }
  const timer = setInterval(() => void renew(), (leaseS * 1000) / 3)
  return {
    lost: lost.signal,
    pausing: pausing.signal,
    report(progress) {
      untold = progress
      tellSoon()
    },
    waitFor(kind) {
      wait = kind
      tellSoon()
    },
    [Symbol.dispose]() {
      clearInterval(timer)
      clearTimeout(telling)
      over.abort()
    },
  }
}
