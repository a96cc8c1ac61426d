import type { MemoryStatus } from '../../schemas/memory.ts'

/** A first snapshot takes seconds; if it is still missing after this long, an operator must investigate. */
const MAX_FIRST_MS = 10 * 60_000

export interface MemoryState {
  enabled: boolean
  hasSnapshot: boolean
  /** A snapshot is being built, not just requested. */
  isBuilding: boolean
  /** When the wait for the first snapshot began. */
  since: Date
}

/** Returns whether a task submitted now would carry the memory; pass `undefined` if the account has no namespace. */
export function memoryStatus(state: MemoryState | undefined, now: Date): MemoryStatus {
  if (!state?.enabled) return { enabled: false, ready: false, detail: null }
  if (state.hasSnapshot) return { enabled: true, ready: true, detail: null }
  if (now.getTime() - state.since.getTime() > MAX_FIRST_MS)
    return { enabled: true, ready: false, detail: 'unavailable' }
  return { enabled: true, ready: false, detail: state.isBuilding ? 'snapshot_pending' : 'provisioning' }
}
