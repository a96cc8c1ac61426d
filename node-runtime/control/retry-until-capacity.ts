import { setTimeout as sleep } from 'node:timers/promises'
import { STORAGE_FULL } from '../../domain/errors.ts'
import { backoff } from '../../platform/async/retry.ts'
import { isDiskFull } from '../../platform/disk-space.ts'
import type { StorageWait } from '../../schemas/nodes/lease.ts'
import { StorageFullError } from '../weights/transfer.ts'
import { ControlError } from './client.ts'

const RETRY_DELAY_MS = { first: 1_000, longest: 15_000 }

/** Returns what is full, the platform's storage or a disk on this node; undefined for any other error. */
export function fullResourceOf(err: unknown): StorageWait | undefined {
  if (err instanceof StorageFullError) return 'storage'
  if (err instanceof ControlError && err.details.reason === STORAGE_FULL) return 'storage'
  return isDiskFull(err) ? 'disk' : undefined
}

export interface CapacityWait {
  /** Ends the wait with the signal's reason. */
  signal: AbortSignal
  /** Called with the full resource when the work starts waiting for room, and with null when it stops waiting. */
  onWait: (kind: StorageWait | null) => void
}

/** Retries work without a time limit until there is room: giving up would lose all computed results. */
export async function retryUntilCapacity<T>(
  work: () => Promise<T>,
  { signal, onWait }: CapacityWait,
): Promise<T> {
  let waiting: StorageWait | undefined
  try {
    for (let attempt = 0; ; attempt++) {
      signal.throwIfAborted()
      try {
        return await work()
      } catch (err) {
        const kind = fullResourceOf(err)
        if (kind === undefined) throw err
        if (kind !== waiting) onWait(kind)
        waiting = kind
        await sleep(backoff(attempt, RETRY_DELAY_MS), undefined, { signal })
      }
    }
  } finally {
    if (waiting !== undefined) onWait(null)
  }
}
