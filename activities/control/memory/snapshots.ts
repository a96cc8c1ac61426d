import * as memorySnapshotRepository from '../../../db/repositories/memory/snapshots.ts'
import type { ControlDeps } from '../deps.ts'

/** The number of old snapshots that one build removes; retention removes the rest. */
const MAX_REMOVED = 100

/** A snapshot whose entries are frozen. The workflow's history stores it, so it contains only counts. */
export interface FrozenMemory {
  snapshotId: string
  entries: number
  /** The number of entries without a vector; 0 when no embedding model is set. */
  missing: number
}

export const createMemoryActivities = ({ db }: Pick<ControlDeps, 'db'>) => ({
  /**
   * Freezes a namespace's entries as this build's snapshot; undefined when the namespace no longer exists. Safe to
   * repeat because a build has one snapshot.
   */
  async freezeMemory({
    namespaceId,
    build,
    modelKey = null,
  }: {
    namespaceId: string
    build: number
    modelKey?: string | null
  }): Promise<FrozenMemory | undefined> {
    const snapshot = await db
      .transaction()
      .execute((trx) => memorySnapshotRepository.freezeSnapshot(trx, { namespaceId, build, modelKey }))
    if (!snapshot) return undefined
    const { id: snapshotId, entries } = snapshot
    return {
      snapshotId,
      entries,
      missing: await memorySnapshotRepository.countMissingVectors(db, snapshotId),
    }
  },

  /** Counts a snapshot's entries that have no vector yet. Safe to repeat because it changes nothing. */
  countMissingMemoryVectors: (snapshotId: string): Promise<number> =>
    memorySnapshotRepository.countMissingVectors(db, snapshotId),

  /**
   * Makes a snapshot the newest ready one in its namespace, and removes older ones that no open task refers to; `false`
   * when the namespace no longer exists. Safe to repeat because an older build never replaces a newer one.
   */
  async publishMemory({
    namespaceId,
    snapshotId,
  }: {
    namespaceId: string
    snapshotId: string
  }): Promise<boolean> {
    const isReady = await db
      .transaction()
      .execute((trx) => memorySnapshotRepository.publishSnapshot(trx, snapshotId))
    await memorySnapshotRepository.removeOldSnapshots(db, { namespaceId, limit: MAX_REMOVED })
    return isReady
  },
})
