import type { StatusDetail } from '../../schemas/inference-task.ts'
import { LEASE_SECONDS, TERM_PER_PATIENCE } from '../../schemas/nodes/lease-terms.ts'
import type { LeaseRenewed, StorageWait } from '../../schemas/nodes/lease.ts'
import { type ControlClient, ControlError } from './client.ts'
import { fullResourceOf } from './retry-until-capacity.ts'

/** A lease that is renewed until it is disposed of; `lost` aborts when it is refused or expires. */
export interface RenewedLease extends Disposable {
  readonly lost: AbortSignal
  /** Aborts when a response says that the work is paused. */
  readonly pausing: AbortSignal
  /** Reports the work's progress. If reports come faster than they can be sent, only the newest is sent. */
  report(progress: StatusDetail): void
  /** Reports that the work is waiting for room; null reports that it no longer is. */
  waitFor(kind: StorageWait | null): void
}

/** The minimum interval between two reports. */
const REPORT_INTERVAL_MS = 200

/**
 * Returns the term of a lease whose calls are retried for `patienceMs`. The lease must outlive those retries. The limit
 * is `MAX_TIMEOUT_S`; a node with a longer patience does not start.
 */
export const leaseSecondsFor = (patienceMs: number): number =>
  Math.min(
    LEASE_SECONDS.maximum,
    Math.max(LEASE_SECONDS.default, Math.ceil((TERM_PER_PATIENCE * patienceMs) / 1_000)),
  )

/** Renews a lease three times per term. Retries gateways that don't respond until the term is over. */
export function autoRenewLease(control: ControlClient, leaseToken: string, leaseS: number): RenewedLease {
  const lost = new AbortController()
  const pausing = new AbortController()
  const over = new AbortController()
  let expiresAt = performance.now() + leaseS * 1000
  let busy = false
  let untold: StatusDetail | undefined
  let wait: StorageWait | null | undefined
  let telling: NodeJS.Timeout | undefined
  let toldAt = -REPORT_INTERVAL_MS

  const scheduleReport = () => {
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
      if (fullResourceOf(err)) {
        // While the platform's storage is full, it can't reassign the work either, so assume that we keep the lease.
        expiresAt = performance.now() + leaseS * 1000
        return
      }
      const isRefused = err instanceof ControlError && err.status < 500 && err.status !== 429
      if (isRefused || performance.now() >= expiresAt)
        lost.abort(new Error('this node no longer holds the lease', { cause: err }))
    } finally {
      busy = false
      scheduleReport()
    }
  }
  const timer = setInterval(() => void renew(), (leaseS * 1000) / 3)
  return {
    lost: lost.signal,
    pausing: pausing.signal,
    report(progress) {
      untold = progress
      scheduleReport()
    },
    waitFor(kind) {
      wait = kind
      scheduleReport()
    },
    [Symbol.dispose]() {
      clearInterval(timer)
      clearTimeout(telling)
      over.abort()
    },
  }
}
