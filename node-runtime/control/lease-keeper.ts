import type { LeaseRenewed } from '../../schemas/lease.ts'
import { type ControlClient, ControlError } from './client.ts'

/** A lease that is renewed until it is disposed of; `lost` aborts when it is refused or expires. */
export interface KeptLease extends Disposable {
  readonly lost: AbortSignal
}

/** Renews a lease three times per term. Gateways that do not respond are retried until the term is over. */
export function keepLease(control: ControlClient, leaseToken: string, leaseS: number): KeptLease {
  const lost = new AbortController()
  const over = new AbortController()
  let expiresAt = performance.now() + leaseS * 1000
  let busy = false

  const renew = async () => {
    if (busy) return
    busy = true
    const askedAt = performance.now()
    try {
      const patienceMs = Math.max(0, expiresAt - askedAt)
      await control.lease<LeaseRenewed>(
        'renew',
        leaseToken,
        { lease_s: leaseS },
        { patienceMs, signal: over.signal },
      )
      expiresAt = askedAt + leaseS * 1000
    } catch (err) {
      if (over.signal.aborted) return
      const isRefused = err instanceof ControlError && err.status < 500 && err.status !== 429
      if (isRefused || performance.now() >= expiresAt)
        lost.abort(new Error('the lease is not ours any more', { cause: err }))
    } finally {
      busy = false
    }
  }
  const timer = setInterval(() => void renew(), (leaseS * 1000) / 3)
  return {
    lost: lost.signal,
    [Symbol.dispose]() {
      clearInterval(timer)
      over.abort()
    },
  }
}
