import type { MemoryStatus } from '../../schemas/memory.ts'

/** A first snapshot takes seconds; one that is missing for this long needs an operator. */
const MAX_FIRST_MS = 10 * 60_000

export interface MemoryState {
  enabled: boolean
  hasSnapshot: boolean
  /** A snapshot is being built, beyond being asked for. */
  isBuilding: boolean
  /** The time since which the first snapshot has been waited for. */
  since: Date
}

/** Returns whether a task that is submitted now would carry the memory; `undefined` stands for no namespace. */
export function memoryStatus(state: MemoryState | undefined, now: Date): MemoryStatus {
  if (!state?.enabled) return { enabled: false, ready: false, detail: null }
  if (state.hasSnapshot) return { enabled: true, ready: true, detail: null }
  if (now.getTime() - state.since.getTime() > MAX_FIRST_MS)
    return { enabled: true, ready: false, detail: 'unavailable' }
  return { enabled: true, ready: false, detail: state.isBuilding ? 'snapshot_pending' : 'provisioning' }
}
