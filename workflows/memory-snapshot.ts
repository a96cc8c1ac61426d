import { proxyLocalActivities, setCurrentDetails, sleep } from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import { LOCAL, PAUSE } from './contract/policy.ts'

const { countMissingMemoryVectors, freezeMemory, publishMemory } = proxyLocalActivities<ControlActivities>(
  LOCAL.record,
)

export interface MemorySnapshotInput {
  namespaceId: string
  build: number
  /** The embedding model whose vectors the snapshot waits for; absent when none is set. */
  modelKey?: string
}

/**
 * Builds one snapshot of an account's memory: freezes the entries, waits for their vectors as long as new ones keep
 * arriving, and publishes the snapshot. The history contains ids and counts, but no text.
 */
export async function memorySnapshot({
  namespaceId,
  build,
  modelKey,
}: MemorySnapshotInput): Promise<{ status: 'ready' | 'gone' }> {
  // A caller waits for the first snapshot of a namespace, so don't delay it.
  if (build > 1) await sleep(PAUSE.forMemory.gatherMs)
  const frozen = await freezeMemory({ namespaceId, build, ...(modelKey !== undefined && { modelKey }) })
  if (!frozen) {
    setCurrentDetails('The namespace no longer exists.')
    return { status: 'gone' }
  }

  const { snapshotId, entries } = frozen
  let { missing } = frozen
  let waitedMs = 0
  for (
    let pauseMs: number = PAUSE.forMemory.firstMs;
    missing > 0 && waitedMs < PAUSE.forMemory.withoutProgressMs;
    pauseMs = Math.min(2 * pauseMs, PAUSE.forMemory.longestMs)
  ) {
    setCurrentDetails(`${missing} of ${entries} entries have no vector yet.`)
    await sleep(pauseMs)
    const left = await countMissingMemoryVectors(snapshotId)
    waitedMs = left < missing ? 0 : waitedMs + pauseMs
    missing = left
  }

  const isReady = await publishMemory({ namespaceId, snapshotId })
  setCurrentDetails(
    isReady ? `Ready: ${entries} entries, ${missing} without a vector.` : 'The namespace no longer exists.',
  )
  return { status: isReady ? 'ready' : 'gone' }
}
